"""The data of text to molecule: captions and names as texts, molecules as Mol2vec vectors.

Names of chemicals are descriptions too. Those of the package chemicals (a table of PubChem) are
read from its wheel; they teach a network to read, before it sees captions.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from common import HERE
from scipy import sparse

from skout.datasets import load_chebi20, load_mol2vec, load_text_molecule

CACHE = HERE / "cache"
N_VAL = 500
N_NAMES = 6  # of a molecule


def prepare(wheel: Path | None) -> None:
    """Write texts, substructure counts and skeletons, which `train` reads without RDKit.

    Parameters
    ----------
    wheel : path or None
        Of the package chemicals, whose names are added.
    """
    test_part = load_chebi20()
    pool = list(test_part.candidates)
    texts, smiles, source = [], [], []
    for name in ("chebi20", "pubchem324k", "pcdes", "iupac"):
        data = load_text_molecule(name)
        X, Y = list(data.X), list(data.Y)
        if name == "chebi20":
            X, Y = data.part("validation")
        texts += list(X)
        smiles += list(Y)
        source += [name] * len(X)
    for text, molecule in names_of(wheel) if wheel else ():
        texts.append(text)
        smiles.append(molecule)
        source.append("names")
    test_texts, test_smiles = test_part.test
    distinct = list(dict.fromkeys([*pool, *test_smiles, *smiles]))  # the pool first
    keys, counts = molecules(distinct)
    row_of = {text: i for i, text in enumerate(distinct)}
    forbidden = {keys[row_of[text]] for text in test_smiles} | {""}
    left = [i for i, text in enumerate(smiles) if keys[row_of[text]] not in forbidden]
    for name in dict.fromkeys(source):
        kept = sum(source[i] == name for i in left)
        print(f"{name}: {kept} of {source.count(name)} pairs remain")
    CACHE.mkdir(exist_ok=True)
    np.savez_compressed(
        CACHE / "text2mol.npz",
        pool=[row_of[text] for text in pool],
        keys=np.array(keys),
        texts=packed(texts[i] for i in left),
        molecule=[row_of[smiles[i]] for i in left],
        source=np.array([source[i] for i in left]),
        test_texts=packed(test_texts),
        test=[row_of[text] for text in test_smiles],
        data=counts.data.astype(np.float32), indices=counts.indices, indptr=counts.indptr,
        shape=counts.shape,
    )  # fmt: skip


def packed(texts: Iterable[str]) -> np.ndarray:
    """Return texts as bytes, a NUL between two: rows of one width would waste memory."""
    return np.frombuffer("\0".join(texts).encode(), dtype=np.uint8)


def unpacked(bytes_: np.ndarray) -> list[str]:
    return bytes_.tobytes().decode().split("\0")


def names_of(wheel: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, SMILES) of the tables in the wheel of chemicals, a few names a molecule."""
    with zipfile.ZipFile(wheel) as file:
        for size in ("large", "small"):
            part = f"chemicals/Identifiers/chemical identifiers pubchem {size}.tsv"
            with io.TextIOWrapper(file.open(part), encoding="utf-8", newline="") as lines:
                for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                    names = [name for name in dict.fromkeys(row[7:]) if is_name(name)]
                    yield from ((name[:300], row[4]) for name in names[:N_NAMES])


def is_name(text: str) -> bool:
    """Return whether a synonym is made of words, not a number in some registry."""
    low = text.lower()
    share = sum(letter.isalpha() for letter in low) / max(1, len(low))
    if share < 0.5:  # systematic names are full of numbers
        return share >= 0.35 and re.search("[a-z]{7}", low) is not None
    coded = re.search(r"\b[a-z]{2,8}[-_ ]?\d{4,}", low)
    return coded is None and re.search("[a-z]{4}", low) is not None


def molecules(smiles: list[str]) -> tuple[list[str], sparse.csr_matrix]:
    """Return InChIKey skeletons, and counts of Morgan substructures of radius 0 and 1."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem import rdFingerprintGenerator

    RDLogger.DisableLog("rdApp.*")
    tokens = [str(token) for token in load_mol2vec().X]
    number = {int(token): i for i, token in enumerate(tokens) if token != "UNK"}
    unknown = tokens.index("UNK")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=1)
    keys, places, values, ends = [], [], [], [0]
    for text in smiles:
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            keys.append("")
        else:
            keys.append(Chem.MolToInchiKey(molecule)[:14])
            found = generator.GetSparseCountFingerprint(molecule).GetNonzeroElements()
            places += [number.get(item, unknown) for item in found]
            values += found.values()
        ends.append(len(values))
    shape = (len(smiles), len(tokens))
    counts = sparse.csr_matrix((np.array(values, dtype=np.float64), places, ends), shape=shape)
    counts.sum_duplicates()
    return keys, counts


class Problem:
    """Texts and molecules as vectors, training and validation rows.

    Parameters
    ----------
    white : float
        Principal directions of the candidates are divided by this power of their variances; 0 is
        Mol2vec as it is.
    damp : float, default 1
        Power of the counts of substructures.

    Attributes
    ----------
    pool : ndarray of shape (33010, 300)
        Candidates, `pool_keys` their InChIKey skeletons.
    texts : list of str
        All texts of training and validation, `outputs` and `keys` the vectors and skeletons of
        their molecules, `source` where they are from.
    train, names, val : ndarray of int
        Rows of the captions and IUPAC names to train on, of the names of chemicals, of validation.
    val_truth, test : ndarray of int
        The candidates that the validation and test texts describe.
    """

    def __init__(self, white: float, damp: float = 1.0) -> None:
        if not (CACHE / "text2mol.npz").is_file():
            prepare(None)
        with np.load(CACHE / "text2mol.npz") as file:
            z = {name: file[name] for name in file.files}
        counts = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        counts.data **= damp
        vectors = counts @ np.asarray(load_mol2vec().Y, dtype=np.float64)
        pool = vectors[z["pool"]]
        if white > 0.0:
            centre = pool.mean(axis=0)
            values, U = np.linalg.eigh(np.cov((pool - centre).T))
            scale = np.maximum(values, 1e-6 * values[-1]) ** -white
            vectors = (vectors - centre) @ ((U * scale) @ U.T)  # in the frame of the data
        self.pool, self.outputs = vectors[z["pool"]], vectors[z["molecule"]]
        self.texts, self.test_texts = unpacked(z["texts"]), unpacked(z["test_texts"])
        self.source, self.keys = z["source"], z["keys"][z["molecule"]]
        self.pool_keys = pool_keys = z["keys"][z["pool"]]
        place = {row: i for i, row in reversed(list(enumerate(z["pool"].tolist())))}
        self.test = np.array([place[row] for row in z["test"].tolist()])
        first = {key: i for i, key in reversed(list(enumerate(pool_keys)))}
        order = np.random.default_rng(0).permutation(np.flatnonzero(self.source == "chebi20"))
        self.val = np.array([i for i in order if self.keys[i] in first][:N_VAL])
        held = set(self.keys[self.val])
        free = np.array([key not in held for key in self.keys])
        self.train = np.flatnonzero(free & (self.source != "names"))
        self.names = np.flatnonzero(free & (self.source == "names"))
        self.val_truth = np.array([self._same(i, pool_keys) for i in self.val])

    def _same(self, i: int, pool_keys: np.ndarray) -> int:
        """Return the candidate that training row i is."""
        some = np.flatnonzero(pool_keys == self.keys[i])
        return int(some[np.abs(self.pool[some] - self.outputs[i]).sum(axis=1).argmin()])

    def parts(self) -> tuple[list[str], np.ndarray]:
        """Return training texts and their rows: captions twice, once without the first sentence.

        Its first words often are the name of the molecule, which should not be all there is.
        """
        texts, rows = [], []
        for i in self.train:
            text = self.texts[i]
            rest = text.split(". ", 1)[-1].strip()
            forms = {text, rest} if self.source[i] != "iupac" and len(rest) > 40 else {text}
            texts += sorted(forms, key=len)
            rows += [i] * len(forms)
        return texts, np.array(rows)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
