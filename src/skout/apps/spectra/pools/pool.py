"""Millions of molecules on disk, found by mass or formula, with their fingerprints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from skout.dev import FileError, check_number
from skout.kernels import PackedBits
from skout.typing import ArrayLike

from ..readers.formulas import hill
from .building import MoleculeSource, Work, add_segment, build_folder
from .segments import Manifest, Segment


class MoleculePool:
    """Molecules in a folder: masses, formulas, SMILES, names, and fingerprints computed once.

    `build` makes one and `open` opens one. Arrays are mapped from the disk, not read: opening
    takes milliseconds whatever the number of molecules, and several processes share the memory.
    Before an array is read for the first time, its SHA-256 is compared with that of the manifest. A
    pickle is the path.

    Molecules are standardized: the largest fragment (of salts), neutralized where this needs no
    more than moving protons. Of molecules with the same skeleton, the first block of the
    InChIKey, the first is kept, so that stereoisomers and tautomers by mobile hydrogens are one;
    it has the first name that any of them has.

    Molecules are numbered 0, 1, ...; numbers stay the same when others are appended.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skout.molecules import MoleculePool
    >>> sugar = "OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O"
    >>> folder = TemporaryDirectory()
    >>> path = Path(folder.name) / "small.skpool"
    >>> pool = MoleculePool.build([("CCO", "ethanol"), "COC", (sugar, "sugar")], path)
    >>> pool
    <MoleculePool: 3 molecules, morgan+counts+pairs+rdkit+maccs fingerprints of 8359 bits>
    >>> indices = pool.by_mass(46.0419, ppm=10)
    >>> list(pool.smiles(indices)), list(pool.names(indices))
    (['CCO', 'COC'], ['ethanol', ''])
    >>> pool.smiles(pool.by_formula("C6H12O6"))
    array(['OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O'], dtype=object)
    >>> pool.fingerprints(indices)
    <PackedBits: 2 rows of 8359 bits, float64>
    >>> pool.append(["CCN", "OCC"])  # one of them is new
    1
    >>> folder.cleanup()
    """

    path: Path

    def __init__(self, path: Path, manifest: Manifest, *, verify: bool = True) -> None:
        self.path, self._verify = path, verify
        self._segments: list[Segment] = []
        self._take(manifest)

    def _take(self, manifest: Manifest) -> None:
        # those that are open already stay, with what was compared
        open_segments = {
            segment.folder.name: segment
            for segment in self._segments
            if segment.record in manifest.segments
        }
        self._segments = [
            open_segments.get(record["folder"]) or Segment(self.path, record, verify=self._verify)
            for record in manifest.segments
        ]
        if any(segment.n_words != -(-manifest.n_bits // 64) for segment in self._segments):
            raise FileError(
                f"{self.path} is damaged: fingerprints have other widths than {manifest.n_bits} "
                "bits, as the manifest says."
            )
        self._manifest = manifest
        self._starts = np.cumsum([0, *map(len, self._segments)])

    # Make and open ------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        source: MoleculeSource,
        path: str | os.PathLike[str],
        *,
        fingerprints: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        batch: int = 5000,
        column: str | None = None,
        verbose: bool = False,
        on_error: str = "skip",
    ) -> Self:
        """Make a pool. Killed while it builds, a second call goes on where the first was.

        Batches are kept in the folder `path` + ".building" until the pool is whole; then it takes
        its name in one step.

        Parameters
        ----------
        source : path, or iterable of paths, SMILES and (SMILES, name)
            Files of SMILES (.smi, .txt), tables with a column of SMILES (.csv, .tsv), or SDF, each
            also with .gz, .bz2 or .xz. In an iterable, text that ends as such a file does is a
            file. To go on with a build, give the same again: batches that changed are made anew.
        path : path
            The folder to make, by custom `name.skpool`.
        fingerprints : dict, optional
            `kind`, `n_bits` and `radius` of `skout.molecules.fingerprints`; by default all five
            kinds of 2048 bits and a radius of 2. "rdkit" and "maccs" take nine tenths of the
            time of fingerprints and add half a point of top 1: leave them out for a large pool.
        n_jobs : int, optional
            Processes; None means one, -1 all cores.
        batch : int, default 5000
            Molecules that a process holds at a time.
        column : str, optional
            The column of tables that has the SMILES; by default "smiles". A column "name" has
            names, and "prior", "count", "number" or "sources" say how well known molecules are, see
            `prior`.
        verbose : bool, default False
            Whether to show a progress bar.
        on_error : "skip" or "raise", default "skip"
            What to do about invalid SMILES and damaged records: leave them out with a warning that
            says how many there are, or raise an error.

        Returns
        -------
        pool : MoleculePool

        Raises
        ------
        FileExistsError
            If there is something at `path` already.
        ValueError
            If there is no valid molecule, or with `on_error="raise"` an invalid one.
        """
        path = Path(path)
        build_folder(source, path, fingerprints, Work(n_jobs, batch, column, verbose, on_error))
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify: bool = True) -> Self:
        """Open a pool: the manifest is checked, with shapes and sizes of files; no array is read.

        Parameters
        ----------
        path : path
        verify : bool, default True
            Whether an array is compared with its SHA-256 before it is read for the first time,
            which reads all of it: about a second for all arrays of two million molecules. Copies
            by pickle, as for other processes, do not compare again.

        Returns
        -------
        pool : MoleculePool

        Raises
        ------
        FileNotFoundError
            If there is no such folder, or it is no pool.
        FileError
            If files are damaged, or of a newer version.
        """
        path = Path(path)
        return cls(path, Manifest.read(path), verify=verify)

    def append(
        self,
        source: MoleculeSource,
        *,
        n_jobs: int | None = None,
        batch: int = 5000,
        column: str | None = None,
        verbose: bool = False,
        on_error: str = "skip",
    ) -> int:
        """Add the molecules that are not in the pool yet, behind the others.

        Other processes that have the pool open go on with what they had. Killed, it leaves the
        pool as it was, and a second call goes on.

        Parameters
        ----------
        source : path, or iterable of paths, SMILES and (SMILES, name)
        n_jobs, batch, column, verbose, on_error
            See `build`.

        Returns
        -------
        added : int
            How many were new.
        """
        work = Work(n_jobs, batch, column, verbose, on_error)
        manifest = add_segment(source, self.path, work)
        before = len(self)
        self._take(manifest)
        return len(self) - before

    def check(self) -> None:
        """Read all files, and raise a FileError that names the one that is damaged."""
        for segment in self._segments:
            segment.check()

    def about(self) -> dict[str, Any]:
        """Return what is known of the pool: molecules, settings, what was left out, bytes."""
        return self._manifest.about()

    @property
    def fingerprint_settings(self) -> dict[str, Any]:
        """The `kind`, `n_bits` and `radius` to give to `skout.molecules.fingerprints`."""
        return dict(self._manifest.fingerprints)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self).open, verify=False), (self.path,)  # a copy maps the same files

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        kind = self.fingerprint_settings["kind"]
        kinds = kind if isinstance(kind, str) else "+".join(kind)
        bits = self._manifest.n_bits
        return f"<MoleculePool: {len(self):,} molecules, {kinds} fingerprints of {bits} bits>"

    # Look up ------------------------------------------------------------------------------------

    def by_mass(self, mass: float, ppm: float = 10.0) -> np.ndarray:
        """Return the molecules of a neutral mass, the nearest first.

        Parameters
        ----------
        mass : float
            The exact mass of the neutral molecule in Da: `SpectraTable.neutral_mass`, or
            `skout.readers.neutral_mass` of a precursor and its adduct.
        ppm : float, default 10.0
            Largest error, in millionths of `mass`.

        Returns
        -------
        indices : ndarray of int64
            Sorted by mass error, then by number; empty if there is none.
        """
        # |m - mass| <= 1e-6 ppm mass
        check_number(mass, "mass", low=0)
        check_number(ppm, "ppm", low=0)
        width = 1e-6 * ppm * mass
        rows = [segment.between(mass - width, mass + width) for segment in self._segments]
        return self._joined(rows, lambda indices: np.abs(self.masses(indices) - mass))

    def by_formula(self, formula: str) -> np.ndarray:
        """Return the molecules of a formula, by their numbers.

        Parameters
        ----------
        formula : str
            Such as "C6H12O6", in any order of elements; "C5H14NO+" for a cation.

        Returns
        -------
        indices : ndarray of int64
        """
        text = hill(formula)
        return self._joined([segment.of_formula(text) for segment in self._segments])

    def by_key(self, keys: Iterable[str]) -> np.ndarray:
        """Return the number of each InChIKey, -1 where it is not in the pool.

        Parameters
        ----------
        keys : list of str
            InChIKeys, of which only the skeleton, the first 14 letters, is compared.

        Returns
        -------
        indices : ndarray of int64
        """
        if isinstance(keys, str):
            raise TypeError(f"keys must be a list of InChIKeys. Got {keys!r} instead.")
        # no key has a letter that is not ASCII, or a question mark
        wanted = np.array([str(key)[:14].encode("ascii", "replace") for key in keys], dtype="S14")
        out = np.full(len(wanted), -1, dtype=np.int64)
        for segment, start in zip(self._segments, self._starts, strict=False):
            rows = segment.of_keys(wanted)
            out[rows >= 0] = rows[rows >= 0] + start
        return out

    def _joined(
        self,
        rows_by_segment: list[np.ndarray],
        order: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return rows of segments as numbers of the pool, sorted by `order` unless it is None."""
        parts = [rows + start for rows, start in zip(rows_by_segment, self._starts, strict=False)]
        indices = np.sort(np.concatenate(parts).astype(np.int64))
        return indices if order is None else indices[np.argsort(order(indices), kind="stable")]

    # Read ---------------------------------------------------------------------------------------

    def smiles(self, indices: ArrayLike) -> np.ndarray:
        """Return the canonical SMILES of molecules, an array of str."""
        return self._read(indices, lambda segment, rows: segment.smiles.take(rows))

    def names(self, indices: ArrayLike) -> np.ndarray:
        """Return the names of molecules, an array of str; "" where none is known."""
        return self._read(indices, lambda segment, rows: segment.names.take(rows))

    def keys(self, indices: ArrayLike) -> np.ndarray:
        """Return the skeletons of the InChIKeys of molecules, an array of str of 14 letters."""
        return self._read(indices, lambda segment, rows: segment.keys(rows))

    def prior(self) -> dict[str, float]:
        """Return how well known molecules are, as `SpectrumIdentifier` takes it; {} without any.

        By the skeletons of their InChIKeys: the sum of the numbers in a column "prior", "count" or
        "number" of the tables that the pool was built from, else how many names are in "sources".
        """
        prior: dict[str, float] = {}
        for segment in self._segments:
            rows = np.flatnonzero(segment.prior)
            prior |= zip(segment.keys(rows).tolist(), segment.prior[rows].tolist(), strict=True)
        return prior

    def masses(self, indices: ArrayLike) -> np.ndarray:
        """Return the exact masses of molecules in Da, float64."""
        return self._read(indices, lambda segment, rows: segment.mass[rows])

    def formulas(self, indices: ArrayLike) -> np.ndarray:
        """Return the formulas of molecules in Hill order, an array of str."""
        return self._read(indices, lambda segment, rows: segment.formulas(rows))

    def fingerprints(self, indices: ArrayLike | None = None) -> PackedBits:
        """Return the fingerprints of molecules, for Tanimoto and the other kernels on sets.

        They are read, not computed. Without indices these are those of all molecules, in the
        memory map itself where nothing was appended.

        Returns
        -------
        rows : PackedBits
        """
        if indices is None and len(self._segments) == 1:
            words = self._segments[0].words
        else:
            indices = np.arange(len(self)) if indices is None else indices
            words = self._read(indices, lambda segment, rows: segment.words[rows])
        return PackedBits(words, self._manifest.n_bits)

    def _read(
        self, indices: ArrayLike, read: Callable[[Segment, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Return what segments have for the molecules, in their order."""
        indices = self._checked(indices)
        which = np.searchsorted(self._starts, indices, side="right") - 1
        if len(self._segments) == 1:
            return read(self._segments[0], indices)
        empty = read(self._segments[0], np.empty(0, dtype=np.int64))
        out = np.empty((len(indices), *empty.shape[1:]), dtype=empty.dtype)
        for number in np.unique(which):
            here = which == number
            out[here] = read(self._segments[number], indices[here] - self._starts[number])
        return out

    def _checked(self, indices: ArrayLike) -> np.ndarray:
        numbers = np.atleast_1d(np.asarray(indices))
        if numbers.size == 0:
            return np.empty(0, dtype=np.int64)
        if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
            raise TypeError(f"indices must be integers. Got {indices!r} instead.")
        if numbers.min() < 0 or numbers.max() >= len(self):
            raise IndexError(
                f"indices must be from 0 to {len(self) - 1}. "
                f"Got {numbers.min()} to {numbers.max()} instead."
            )
        return numbers.astype(np.int64, copy=False)
