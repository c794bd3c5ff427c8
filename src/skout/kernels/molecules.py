"""Molecules by RDKit (`pip install "skout[chem]"`): from SMILES, and to fingerprints."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from tqdm import tqdm

from .._numerics.arrays import row_slices
from .._numerics.extras import extra
from .._numerics.objects import stack
from .._numerics.validation import check_choice, check_number
from .bits import PackedBits, pack_matrix, pack_objects

#: An rdkit.Chem.Mol: RDKit is optional, and has no types.
Molecule: TypeAlias = Any
Fingerprints: TypeAlias = PackedBits | sparse.csr_matrix

# Invalid SMILES that a message shows.
_SHOWN = 5
# Molecules that are held at a time: an RDKit molecule takes far more memory than its fingerprint. A
# convention.
_AT_ONCE = 4096
# RDKit takes numbers of 32 bits.
_MOST = 2**31 - 1
_KINDS = ("morgan", "counts", "pairs", "rdkit", "maccs")


def chemistry() -> ModuleType:
    """Return rdkit.Chem."""
    with extra("chem", "Molecules and SMILES need RDKit"):
        from rdkit import Chem
    return Chem


def molecules(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the molecule of each SMILES, None where it is invalid or has no atom; others as is.

    One at a time: RDKit's molecules are large.
    """
    Chem = chemistry()
    from rdkit import rdBase

    with rdBase.BlockLogs():  # keeps RDKit's messages off the terminal
        for item in items:
            try:
                molecule = Chem.MolFromSmiles(item) if isinstance(item, str) else item
            except UnicodeEncodeError:  # half of a character
                molecule = None
            empty = isinstance(molecule, Chem.Mol) and molecule.GetNumAtoms() == 0
            yield None if empty else molecule


def refuse(invalid: list[int], items: list[Any], on_error: str = "raise") -> None:
    """Raise one error for all SMILES at the positions `invalid`, or warn that they are skipped."""
    if not invalid:
        return
    shown = ", ".join(f"{items[i]!r} at position {i}" for i in invalid[:_SHOWN])
    more = f" and {len(invalid) - _SHOWN} more" if len(invalid) > _SHOWN else ""
    count = f"{len(invalid)} of {len(items)} SMILES are invalid"
    if on_error == "skip":
        warnings.warn(f"{count} and skipped: {shown}{more}.", stacklevel=3)
        return
    raise ValueError(
        f"{count}: {shown}{more}. Mend them or leave them out: skout.molecules.parse_smiles has "
        'on_error="skip", and on_error="none" to have None in their places.'
    )


def parse_smiles(smiles: Iterable[str], *, on_error: str = "raise") -> list[Molecule]:
    """Return the RDKit molecules of SMILES; invalid ones raise an error, or are left out.

    Parameters
    ----------
    smiles : list or array of str
        RDKit molecules among them stay as they are.
    on_error : "raise", "skip" or "none", default "raise"
        What to do about invalid SMILES: raise one error that says how many there are and shows the
        first ones; leave them out with a warning that says the same; or have None in their places.

    Returns
    -------
    molecules : list of rdkit.Chem.Mol
        As many as SMILES, but for those that are skipped.

    Raises
    ------
    ValueError
        If a SMILES is invalid or has no atoms.

    Examples
    --------
    >>> from skout.molecules import parse_smiles
    >>> parse_smiles(["CCO", "C1CC"])
    Traceback (most recent call last):
    ValueError: 1 of 2 SMILES are invalid: 'C1CC' at position 1. ...
    >>> [mol is not None for mol in parse_smiles(["CCO", "C1CC"], on_error="none")]
    [True, False]
    """
    check_choice(on_error, "on_error", ("raise", "skip", "none"))
    items = _as_list(smiles)
    parsed = _parse(items)
    if on_error == "none":
        return parsed
    refuse([i for i, molecule in enumerate(parsed) if molecule is None], items, on_error)
    return [molecule for molecule in parsed if molecule is not None]


def fingerprints(
    smiles: Iterable[str],
    kind: str | Sequence[str] = "morgan",
    *,
    n_bits: int = 2048,
    radius: int = 2,
    counts: bool = False,
    on_error: str = "raise",
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Fingerprints:
    """Return the fingerprints of molecules, for Tanimoto and the other kernels on sets.

    Parameters
    ----------
    smiles : list or array of str
        Or RDKit molecules.
    kind : "morgan", "counts", "pairs", "rdkit" or "maccs", or a list of them, default "morgan"
        Circular neighborhoods of atoms (ECFP), the same up to one bond more with bits for how
        often they occur (1, 2, 4 and 8 times), pairs of atoms with the distance between them, paths
        and branches, or the 166 MACCS keys (in 167 bits, the first unused). Those of a list stand
        side by side.
    n_bits : int, default 2048
        Bits of each fingerprint but "maccs".
    radius : int, default 2
        Of "morgan": 2 makes what is known as ECFP4. "counts" has one more.
    counts : bool, default False
        Whether to count how often each feature occurs. "maccs" has no counts.
    on_error : "raise" or "skip", default "raise"
        What to do about invalid SMILES: raise an error, or leave them out, so that there are fewer
        rows than SMILES. Both say how many there are and show the first ones.
    n_jobs : int, optional
        Threads; None means one.
    verbose : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    rows : PackedBits, or a CSR matrix of counts, shape (n, total number of bits)

    Raises
    ------
    ValueError
        If SMILES are invalid, or if none is left when these are skipped.

    Examples
    --------
    >>> from skout.kernels import Tanimoto
    >>> from skout.molecules import fingerprints
    >>> bits = fingerprints(["CCO", "CCN", "c1ccccc1"], n_bits=1024)
    >>> Tanimoto()(bits).round(2)
    array([[1.  , 0.33, 0.  ],
           [0.33, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    check_choice(on_error, "on_error", ("raise", "skip"))
    names = list(kind) if isinstance(kind, list | tuple) else [str(kind)]
    makers = _makers(names, n_bits, radius, counts, effective_n_jobs(n_jobs or 1))
    items = _as_list(smiles)
    if not items:
        raise ValueError("smiles is empty: give at least one molecule.")
    parts, invalid = [], []
    with tqdm(total=len(items), desc="fingerprints", disable=not verbose) as bar:
        for part in row_slices(len(items), _AT_ONCE):
            parsed = _parse(items[part])
            invalid += [part.start + i for i, mol in enumerate(parsed) if mol is None]
            valid = [mol for mol in parsed if mol is not None]
            # an error needs no rows; the rest is parsed for a message with all that are invalid
            if valid and (on_error == "skip" or not invalid):
                parts.append(_side_by_side([make(valid) for make in makers]))
            bar.update(len(parsed))
    refuse(invalid, items, "raise" if len(invalid) == len(items) else on_error)
    return stack(parts)


def _as_list(smiles: object) -> list[Any]:
    if isinstance(smiles, str) or not isinstance(smiles, Iterable):
        raise TypeError(f"smiles must be a list or array of strings. Got {smiles!r} instead.")
    return list(smiles)


def _parse(items: list[Any]) -> list[Molecule]:
    """Return molecules, and None in the place of anything else."""
    Chem = chemistry()
    return [mol if isinstance(mol, Chem.Mol) else None for mol in molecules(items)]


Maker: TypeAlias = Callable[[list[Molecule]], Fingerprints]


def _makers(names: list[str], n_bits: int, radius: int, counts: bool, threads: int) -> list[Maker]:
    """Return for each kind the function from molecules to rows."""
    check_number(n_bits, "n_bits", low=1, integer=True)
    check_number(radius, "radius", integer=True)
    for name, value in (("n_bits", n_bits), ("radius", radius)):
        if value > _MOST:
            raise ValueError(f"{name} must be at most {_MOST}. Got {value} instead.")
    if not names:
        raise ValueError("kind must be a fingerprint or a list of some. Got none.")
    for name in names:
        check_choice(name, "kind", _KINDS)
    if counts and "maccs" in names:
        raise ValueError('kind="maccs" has no counts: leave it out, or counts=False.')
    chemistry()  # says what to install
    from rdkit.Chem import rdFingerprintGenerator as generators
    from rdkit.Chem import rdMolDescriptors as descriptors

    def pack(vectors: Iterable[Any]) -> Fingerprints:
        bits = pack_objects(list(vectors))
        assert bits is not None  # they are bit vectors
        return bits

    def maker(name: str) -> Maker:
        if name == "maccs":
            return lambda mols: pack(map(descriptors.GetMACCSKeysFingerprint, mols))
        if name == "morgan":
            generator = generators.GetMorganGenerator(radius=int(radius), fpSize=int(n_bits))
        elif name == "counts":
            generator = generators.GetMorganGenerator(
                radius=int(radius) + 1, fpSize=int(n_bits), countSimulation=True
            )
        elif name == "pairs":
            generator = generators.GetAtomPairGenerator(fpSize=int(n_bits))
        else:
            generator = generators.GetRDKitFPGenerator(fpSize=int(n_bits))
        if counts:
            make = generator.GetCountFingerprints
            return lambda mols: _counts(make(mols, numThreads=threads), int(n_bits))
        return lambda mols: pack(generator.GetFingerprints(mols, numThreads=threads))

    return [maker(name) for name in names]


def _counts(vectors: Iterable[Any], n_bits: int) -> sparse.csr_matrix:
    """Return RDKit's sparse vectors of counts as one matrix."""
    rows = [vector.GetNonzeroElements() for vector in vectors]
    indptr = np.cumsum([0, *map(len, rows)])
    columns = np.fromiter((j for row in rows for j in row), dtype=np.int64, count=indptr[-1])
    values = (count for row in rows for count in row.values())
    data = np.fromiter(values, dtype=np.float64, count=indptr[-1])
    matrix = sparse.csr_matrix((data, columns, indptr), shape=(len(rows), n_bits))
    matrix.sort_indices()
    return matrix


def _side_by_side(parts: list[Any]) -> Fingerprints:
    """Return the columns of several fingerprints of the same molecules as one."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.hstack(parts, format="csr")
    bits = pack_matrix(np.hstack([part.unpack(bool) for part in parts]))
    assert bits is not None  # they are 0 and 1
    return bits
