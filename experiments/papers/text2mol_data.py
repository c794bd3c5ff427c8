"""The data of text to molecule: captions and names as texts, molecules as vectors.

Names of chemicals are descriptions too. Those of the packages chemicals (a table of PubChem) and
equilibrator-cache-data (metabolites) are read from their wheels; they teach a network to read.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sqlite3
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from experiments.common import HERE
from skout.datasets import load

CACHE = HERE / "cache"
N_VAL = 500
N_NAMES = 6  # of a molecule
RADIUS, N_MARKED, MOST_MARKS, N_DIRECTIONS = 3, 5, 2**16, 600


def prepare(names: Sequence[Path], definitions: Path | None) -> None:
    """Write texts, counts of substructures and skeletons, which `train` reads without RDKit.

    Parameters
    ----------
    names : paths
        Wheels of the packages chemicals and equilibrator-cache-data, whose names are added.
    definitions : path or None
        A table of definitions of ChEBI: smiles, definition, in_text_molecule_pairs.
    """
    test_part = load("chebi20")
    pool = list(test_part.candidates)
    pairs = [(source, *pair) for source, found in _texts(names, definitions) for pair in found]
    test_texts, test_smiles = test_part.test
    smiles = [molecule for _, _, molecule in pairs]
    distinct = list(dict.fromkeys([*pool, *test_smiles, *smiles]))  # the pool first
    row_of = {text: i for i, text in enumerate(distinct)}
    keys, counts, marks = molecules(distinct)
    forbidden = {keys[row_of[text]] for text in test_smiles} | {""}
    left = [pair for pair in pairs if keys[row_of[pair[2]]] not in forbidden]
    for name in dict.fromkeys(source for source, _, _ in pairs):
        kept, given = (sum(pair[0] == name for pair in some) for some in (left, pairs))
        print(f"{name}: {kept} of {given} pairs remain")
    sources, texts, _ = zip(*left, strict=True)
    mixed = in_mixtures(smiles)
    CACHE.mkdir(exist_ok=True)
    np.savez_compressed(
        CACHE / "text2mol.npz",
        mol2vec=load("mol2vec").Y.astype(np.float32),
        alone=np.array([keys[row_of[text]] not in mixed for text in test_smiles]),
        pool=[row_of[text] for text in pool],
        keys=np.array(keys),
        texts=packed(texts),
        molecule=[row_of[molecule] for _, _, molecule in left],
        source=np.array(sources),
        test_texts=packed(test_texts),
        test=[row_of[text] for text in test_smiles],
        **_parts("counts", counts),
        **_parts("marks", marks),
    )


def _texts(
    names: Sequence[Path], definitions: Path | None
) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    """Yield where texts are from, and pairs of a text and the SMILES of a molecule."""
    for name in ("chebi20", "pubchem324k", "pcdes", "iupac"):
        data = load(name, "text")
        X, Y = data.part("validation") if name == "chebi20" else (data.X, data.Y)
        yield name, zip(map(str, X), map(str, Y), strict=True)
    if definitions is not None:
        yield "definitions", defined(definitions)
    for wheel in names:
        yield "names", names_of(wheel)


def in_mixtures(smiles: Iterable[str]) -> set[str]:
    """Return the skeletons of molecules that are a part of a salt or mixture with a text.

    The skeleton of the whole is another one, so that such texts are not left out of training.
    """
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")
    parts = {part for whole in set(smiles) if "." in whole for part in whole.split(".")}
    found = [Chem.MolFromSmiles(part) for part in parts if len(part) > 8]  # no counter-ions
    return {Chem.MolToInchiKey(part)[:14] for part in found if part is not None}


def _parts(name: str, counts: sparse.csr_matrix) -> dict[str, np.ndarray]:
    """Return a matrix of small counts as arrays that a file has room for."""
    values = np.minimum(counts.data, 255).astype(np.uint8)
    parts = {"data": values, "indices": counts.indices.astype(np.uint16), "indptr": counts.indptr}
    return {f"{name}_{part}": array for part, array in parts.items()} | {
        f"{name}_shape": np.array(counts.shape)
    }


def _matrix(name: str, z: dict[str, np.ndarray]) -> sparse.csr_matrix:
    data, indices, indptr, shape = (
        z[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape")
    )
    indices = indices.astype(np.int32)
    return sparse.csr_matrix((data.astype(np.float64), indices, indptr), shape=tuple(shape))


def packed(texts: Iterable[str]) -> np.ndarray:
    """Return texts as bytes, a NUL between two: rows of one width would waste memory."""
    return np.frombuffer("\0".join(texts).encode(), dtype=np.uint8)


def unpacked(bytes_: np.ndarray) -> list[str]:
    return bytes_.tobytes().decode().split("\0")


def defined(path: Path) -> Iterator[tuple[str, str]]:
    """Yield definitions of ChEBI in the words of its captions, of molecules that have none."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["in_text_molecule_pairs"] == "False":
                text = row["definition"]
                yield re.sub("^A", "The molecule is a", text), row["smiles"]


def names_of(wheel: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, SMILES) of a wheel, a few names a molecule."""
    found = _of_chemicals if wheel.name.startswith("chemicals") else _of_equilibrator
    for names, molecule in found(wheel):
        different = {name.lower(): name for name in reversed(names) if is_name(name)}
        yield from ((name[:300], molecule) for name in list(different.values())[::-1][:N_NAMES])


def _of_chemicals(wheel: Path) -> Iterator[tuple[list[str], str]]:
    with zipfile.ZipFile(wheel) as file:
        for size in ("large", "small"):
            part = f"chemicals/Identifiers/chemical identifiers pubchem {size}.tsv"
            with io.TextIOWrapper(file.open(part), encoding="utf-8", newline="") as lines:
                for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                    yield row[7:], row[4]


def _of_equilibrator(wheel: Path) -> Iterator[tuple[list[str], str]]:
    query = (
        "SELECT c.id, c.smiles, i.accession FROM compounds c JOIN compound_identifiers i "
        "ON i.compound_id = c.id JOIN registries r ON r.id = i.registry_id "
        "WHERE r.namespace = 'synonyms' AND c.smiles IS NOT NULL ORDER BY c.id, i.id"
    )
    part = "equilibrator_cache_data/mini_compounds.sqlite"
    with (
        tempfile.TemporaryDirectory() as folder,
        zipfile.ZipFile(wheel) as file,
        closing(sqlite3.connect(file.extract(part, folder))) as table,
    ):
        for (_, smiles), rows in groupby(table.execute(query), key=lambda row: row[:2]):
            yield [row[2] for row in rows], smiles


def is_name(text: str) -> bool:
    """Return whether a synonym is made of words, not a number in some registry."""
    low = text.lower()
    if re.fullmatch("[a-z]{14}-[a-z]{10}-[a-z]", low):  # an InChIKey
        return False
    share = sum(letter.isalpha() for letter in low) / max(1, len(low))
    if share < 0.5:  # systematic names are full of numbers
        return share >= 0.35 and re.search("[a-z]{7}", low) is not None
    coded = re.search(r"\b[a-z]{2,8}[-_ ]?\d{4,}", low)
    return coded is None and re.search("[a-z]{4}", low) is not None


def molecules(smiles: list[str]) -> tuple[list[str], sparse.csr_matrix, sparse.csr_matrix]:
    """Return InChIKey skeletons, counts of Mol2vec's substructures, and of marks.

    The substructures of Mol2vec are Morgan's of radius 0 and 1, which cannot tell stereoisomers
    from each other: nearly a quarter of the candidates have the counts of another one. Marks are
    those of radius up to 3 with their chirality, and whole numbers such as that of the atoms.
    """
    from rdkit import Chem, RDLogger
    from rdkit.Chem import rdFingerprintGenerator

    RDLogger.DisableLog("rdApp.*")
    tokens = [str(token) for token in load("mol2vec").X]
    unknown = tokens.index("UNK")
    number = {int(token): i for i, token in enumerate(tokens) if i != unknown}
    plain = rdFingerprintGenerator.GetMorganGenerator(radius=1)
    handed = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, includeChirality=True)
    keys, counts, marks = [], [], []
    for text in smiles:
        molecule = Chem.MolFromSmiles(text)
        keys.append("" if molecule is None else Chem.MolToInchiKey(molecule)[:14])
        counts.append({})
        marks.append({})
        if molecule is not None:
            for item, n in plain.GetSparseCountFingerprint(molecule).GetNonzeroElements().items():
                place = number.get(item, unknown)
                counts[-1][place] = counts[-1].get(place, 0) + n
            marks[-1] = handed.GetSparseCountFingerprint(molecule).GetNonzeroElements()
            marks[-1] |= {f"{name}{n}": 1 for name, n in sizes(molecule).items() if n}
    n_molecules = Counter(mark for some in marks for mark in some)
    common = [mark for mark, n in n_molecules.most_common(MOST_MARKS) if n >= N_MARKED]
    place_of = {mark: i for i, mark in enumerate(common)}
    marks = [{place_of[m]: n for m, n in some.items() if m in place_of} for some in marks]
    return keys, _counted(counts, len(tokens)), _counted(marks, len(place_of))


def sizes(molecule: Any) -> dict[str, int]:
    """Return whole numbers of a molecule: atoms, charge, rings, and centres by their hand."""
    elements = Counter(atom.GetSymbol() for atom in molecule.GetAtoms())
    centres = [atom for atom in molecule.GetAtoms() if atom.HasProp("_CIPCode")]
    hands = Counter(atom.GetProp("_CIPCode") for atom in centres)
    doubles = Counter(str(bond.GetStereo()) for bond in molecule.GetBonds())
    return {
        **elements,
        "atoms": molecule.GetNumAtoms(),
        "hydrogens": sum(atom.GetTotalNumHs() for atom in molecule.GetAtoms()),
        "charge": sum(atom.GetFormalCharge() for atom in molecule.GetAtoms()),
        "rings": molecule.GetRingInfo().NumRings(),
        "aromatic": sum(atom.GetIsAromatic() for atom in molecule.GetAtoms()),
        "R-hand": hands["R"],
        "S-hand": hands["S"],
        "E-bonds": doubles["STEREOE"],
        "Z-bonds": doubles["STEREOZ"],
        "isotopes": sum(atom.GetIsotope() > 0 for atom in molecule.GetAtoms()),
    }


def _counted(rows: Sequence[dict[int, int]], width: int) -> sparse.csr_matrix:
    ends = np.cumsum([0, *map(len, rows)])
    places = np.fromiter((place for row in rows for place in row), dtype=np.int32)
    values = np.fromiter((n for row in rows for n in row.values()), dtype=np.float64)
    return sparse.csr_matrix((values, places, ends), shape=(len(rows), width))


class Problem:
    """Texts and molecules as vectors, training and validation rows.

    Parameters
    ----------
    white : float
        Principal directions of the candidates are divided by this power of their variances; 0 is
        Mol2vec as it is.
    damp : float, default 1
        Power of the counts of substructures.
    marks : float, default 0
        The weight of the principal directions of the marks beside Mol2vec, both of norm one; 0 is
        Mol2vec alone.

    Attributes
    ----------
    pool : ndarray of shape (33010, d)
        Candidates, `pool_keys` their InChIKey skeletons.
    texts : list of str
        All texts of training and validation, `outputs` and `keys` the vectors and skeletons of
        their molecules, `source` where they are from; `vectors` are those of all molecules, and
        `molecule` the row there of each text.
    train, names, val : ndarray of int
        Rows of the captions and IUPAC names to train on, of the names of chemicals, of validation.
    val_truth, test : ndarray of int
        The candidates that the validation and test texts describe.
    alone : ndarray of bool
        Whether a test molecule is no part of a mixture that a training text describes.
    """

    def __init__(self, white: float, damp: float = 1.0, marks: float = 0.0) -> None:
        if not (CACHE / "text2mol.npz").is_file():
            prepare([], None)
        with np.load(CACHE / "text2mol.npz") as file:
            z = {name: file[name] for name in file.files}
        counts = _matrix("counts", z)
        counts.data **= damp
        vectors = counts @ z["mol2vec"].astype(np.float64)
        pool = vectors[z["pool"]]
        if white > 0.0:
            centre = pool.mean(axis=0)
            values, U = np.linalg.eigh(np.cov((pool - centre).T))
            scale = np.maximum(values, 1e-6 * values[-1]) ** -white
            vectors = (vectors - centre) @ ((U * scale) @ U.T)  # in the frame of the data
        if marks > 0.0:
            more = directions(_matrix("marks", z), z["pool"])
            vectors = np.hstack([unit(vectors), marks * unit(more)])
        self.vectors, self.molecule, self.pool = vectors, z["molecule"], vectors[z["pool"]]
        self.texts, self.test_texts = unpacked(z["texts"]), unpacked(z["test_texts"])
        self.source, self.keys = z["source"], z["keys"][z["molecule"]]
        self.pool_keys, self.alone = z["keys"][z["pool"]], z["alone"]
        place = {row: i for i, row in reversed(list(enumerate(z["pool"].tolist())))}
        self.test = np.array([place[row] for row in z["test"].tolist()])
        order = np.random.default_rng(0).permutation(np.flatnonzero(self.source == "chebi20"))
        self.val = order[:N_VAL]
        held = set(self.keys[self.val])
        free = np.array([key not in held for key in self.keys])
        self.train = np.flatnonzero(free & (self.source != "names"))
        self.names = np.flatnonzero(free & (self.source == "names"))
        self.val_truth = np.array([place[row] for row in z["molecule"][self.val].tolist()])

    @property
    def outputs(self) -> np.ndarray:
        return self.vectors[self.molecule]

    def forms(self, i: int) -> list[str]:
        """Return a text as it is, without its first sentence, and without each of the others."""
        text = self.texts[i]
        rest = text.split(". ", 1)[-1].strip()
        if self.source[i] == "iupac" or len(rest) <= 40 or rest == text:
            return [text]
        sentences = text.split(". ")
        others = [". ".join(sentences[:k] + sentences[k + 1 :]) for k in range(1, len(sentences))]
        return [text, rest, *others]


def directions(marks: sparse.csr_matrix, pool: np.ndarray) -> np.ndarray:
    """Return roots of counts of marks by their rarity, along principal directions of the pool."""
    n_candidates = np.bincount(marks[pool].indices, minlength=marks.shape[1])
    kept = np.flatnonzero(n_candidates >= 3)
    M = marks[:, kept].astype(np.float32)
    M.data **= 0.5
    M = normalize(M @ sparse.diags_array(np.log(len(pool) / n_candidates[kept])).astype(np.float32))
    _, values, U = randomized_svd(M[pool], N_DIRECTIONS, n_iter=2, random_state=0)
    return (M @ U.T) * (values / values[0]) ** -0.25


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
