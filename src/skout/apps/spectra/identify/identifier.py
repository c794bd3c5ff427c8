"""From the spectrum of a molecule to its structure: learn a library, then search a pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from skout.dev import PartsByName, check_choice, check_level, check_number, check_rng
from skout.molecules import fingerprints, parse_smiles

from ..pools.building import SETTINGS
from ..pools.priors import check_prior, prior_column
from ..readers import spectra_table
from .annotation import explain_peaks
from .calibration import Cuts
from .columns import Ions, bond_classes, scale_groups, way_columns, with_fragments
from .design import Design, combined_kernel, few_a_group
from .inputs import formula_of, read_library
from .queries import batches, read_queries
from .ranking import CandidateRanking, HeldOut, learned, random_order, report_of
from .results import Explanation, Identification
from .search import Pairs, described, ranked
from .side_by_side import widths_of
from .validation import Candidates, held_out
from .ways import BothWays


class SpectrumIdentifier(PartsByName):
    """Identify molecules by their spectra: a kernel model, with candidates from a pool.

    `fit` learns both ways between spectra and molecules (`TwoWay`): a kernel on spectra that
    ALIGNF combines of six, Tanimoto kernels on fingerprints, landmarks that are drawn by molecule;
    one model for both polarities and all adducts. Candidates are also broken into fragments, whose
    formulas explain peaks. In folds of laboratories, or of molecules where spectra do not say their
    laboratory, it learns how much each of these counts (a softmax over candidates, as in
    `Reranker`), and measures how good the model is on what it has not seen, how sure it may be, and
    how large prediction sets must be. `identify` takes the molecules of the right mass from a pool,
    and ranks them.

    Needs RDKit: `pip install skout[chem]`.

    Parameters
    ----------
    n_landmarks : tuple of two int or None, default (1500, 800)
        Among spectra and among molecules; None is all of them.
    most_spectra : int, default 6
        Spectra of a molecule that are learned from; more of them are drawn from.
    n_validation : int, default 2000
        Spectra that are held out, at most: one of each molecule, or of each molecule and
        laboratory.
    cv : int, default 5
        Folds of laboratories, where all spectra say theirs and there are as many, else of
        molecules.
    coverage : float, default 0.9
        Probability that a prediction set holds the molecule, where this is one of several
        candidates: for few candidates and for many alike.
    fingerprint : dict, optional
        Arguments of `skout.molecules.fingerprints`. Default those of the pool that `fit` is given,
        else those of pools: five kinds side by side.
    fragments : bool, default True
        Whether candidates are broken into fragments.
    random_state : None, int or Generator
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    verbose : bool, default False
        Whether to show progress.

    Attributes
    ----------
    ways_ : BothWays
        The model behind it: kernels with landmarks of spectra and of molecules, and matrices.
    validation_ : dict
        "top_1", "top_10" and "mrr_25" of spectra that were held out and have several candidates,
        each with its standard error "..._se"; "calibration_error" and "mean_confidence" of the best
        candidate; "n_held_out" spectra, "n_several" of them with several candidates,
        "n_molecules" in all, sizes of the candidate sets and where these are from, "folds_of"
        "laboratories" or "molecules", and "in_reach", the share of spectra of the library whose
        mass is within ppm of their molecule's; others are not held out. "random" has the same
        scores of random order. With a prior there are, of those whose molecule the pool has by
        itself, "prior", the scores of the prior alone, which sees no spectrum, "with_prior", those
        of both, and "same_without_prior".
    rankings_ : dict
        "spectrum", and "prior" where there is one: "coef" of the columns of candidates,
        "confidence" (temperature, intercept and slope that make probabilities of scores), and of
        held-out spectra with several candidates "sizes", how many, and "surprises", -log of the
        probability of the truth, which prediction sets are made with.
    bond_classes_ : tuple of str or None
        Kinds of bonds that have their own columns, where candidates are broken into fragments.
    polarities_ : tuple of str
        Those of the library.

    Examples
    --------
    >>> from skout import SpectrumIdentifier
    >>> from skout.datasets import load
    >>> data = load("massbank-sample")
    >>> some = slice(0, 60)
    >>> model = SpectrumIdentifier(n_landmarks=(50, 50), cv=2, random_state=0)
    >>> model = model.fit(data.X[some], data.Y[some], groups=range(60))
    >>> model.validation_["n_molecules"]
    60
    """

    def __init__(
        self,
        *,
        n_landmarks: tuple[int | None, int | None] = (1500, 800),
        most_spectra: int = 6,
        n_validation: int = 2000,
        cv: int = 5,
        coverage: float = 0.9,
        fingerprint: dict[str, Any] | None = None,
        fragments: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.most_spectra = most_spectra
        self.n_validation = n_validation
        self.cv = cv
        self.coverage = coverage
        self.fingerprint = fingerprint
        self.fragments = fragments
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        spectra: Any,
        smiles: Any = None,
        groups: Any = None,
        *,
        pool: Any = None,
        ppm: float = 10.0,
        prior: Mapping[str, float] | None = None,
        on_error: str = "raise",
    ) -> SpectrumIdentifier:
        """Learn from the spectra of known molecules.

        Parameters
        ----------
        spectra : SpectraTable, Spectra, or list of spectra
            As `skout.readers` returns them, or what kernels on spectra take. Where a precursor is
            not given it follows from molecule and adduct.
        smiles : sequence of str, optional
            One for each spectrum; default those of the table.
        groups : sequence of labels, optional
            Spectra of one label stay in one fold. Default the skeletons of the molecules, the
            first 14 letters of their InChIKeys; then folds are of laboratories where these are
            known, and no molecule is on both sides.
        pool : MoleculePool, optional
            Where candidates of held-out spectra are from: as it will be used. Default the molecules
            of the library of nearly equal mass, among which it is easier to be right.
        ppm : float, default 10
            How far masses of candidates are from that of the spectrum.
        prior : mapping of InChIKey skeletons to numbers, optional
            How well known molecules are, such as the number of lists that they stand on; see
            `skout.molecules.read_prior`. Molecules that are often written about are also measured
            more often; where yours are new ones, leave it out.
        on_error : "raise" or "skip", default "raise"
            What to do about spectra without a valid SMILES or without a precursor.

        Returns
        -------
        self : SpectrumIdentifier
        """
        self._check(ppm)
        check_prior(prior)
        rng = check_rng(self.random_state)
        library = read_library(spectra, smiles, groups, cv=self.cv, on_error=on_error)
        settings = self.fingerprint or getattr(pool, "fingerprint_settings", None) or SETTINGS
        widths = widths_of(settings)
        bits = fingerprints(library.smiles, n_jobs=self.n_jobs, **settings)
        rows = few_a_group(library.groups, self.most_spectra, rng)
        X, molecule = library.ions.spectra[rows], library.molecule[rows]
        Y = bits[molecule]
        kernel = combined_kernel(X, Y, molecule, widths, rng)
        design = Design(kernel, *self.n_landmarks, widths, int(rng.integers(2**31)), self.n_jobs)
        candidates = Candidates(pool, float(ppm), bits, library)
        classes = bond_classes(library.smiles) if self.fragments else None
        with tqdm(total=self.cv + 2, desc="fitting", disable=not self.verbose) as bar:
            rows_held, pairs, held = held_out(
                library,
                design,
                rows,
                candidates,
                classes,
                cv=self.cv,
                n_validation=self.n_validation,
                rng=rng,
                tell=lambda _: bar.update(),
            )
            ways = BothWays.of(design.two_ways(molecule).fit(X, Y))
            bar.update()
        rankings, report = _rankings(held, pairs, candidates, classes, prior)
        self.ways_ = ways
        self.rankings_ = {name: ranking.state for name, ranking in rankings.items()}
        self.bond_classes_ = classes
        self.fingerprint_ = dict(settings)
        self.polarities_ = library.polarities
        self.validation_ = report | {
            **candidates.facts(rows_held),
            "coverage": float(self.coverage),
            "ppm": float(ppm),
        }
        return self

    def _check(self, ppm: Any) -> None:
        check_number(ppm, "ppm", strict=True)
        for name in ("most_spectra", "n_validation"):
            check_number(getattr(self, name), name, low=1, integer=True)
        check_number(self.cv, "cv", low=2, integer=True)
        check_level(self.coverage, "coverage")
        if not isinstance(self.n_landmarks, tuple | list) or len(self.n_landmarks) != 2:
            raise ValueError(
                "n_landmarks must be two numbers, of spectra and of molecules. Got "
                f"{self.n_landmarks!r} instead."
            )

    def identify(
        self,
        spectra: Any,
        pool: Any,
        *,
        ppm: float = 10.0,
        top: int = 25,
        by: str = "mass",
        adduct: str | None = None,
        prior: Mapping[str, float] | None = None,
        progress: Callable[[int, int], Any] | None = None,
    ) -> list[Identification]:
        """Rank the molecules of a pool that could have made each spectrum.

        Parameters
        ----------
        spectra : SpectraTable, Spectra, or list of spectra
        pool : MoleculePool
            Or what has its methods `by_mass`, `by_formula`, `smiles`, `names`, `keys`, `masses`,
            `formulas` and `fingerprints`.
        ppm : float, default 10
            How far masses of candidates are from that of the spectrum.
        top : int, default 25
            Candidates that are returned, at most.
        by : "mass" or "formula", default "mass"
            Whether candidates have the mass of the precursor, or the formula that comes with the
            spectrum.
        adduct : str, optional
            Of spectra that do not say theirs, such as "[M+H]+".
        prior : mapping of InChIKey skeletons to numbers, optional
            As in `fit`, which must have had one. Default: the spectrum alone decides.
        progress : callable (done, total), optional
            Called with how many spectra are done.

        Returns
        -------
        found : list of Identification
            One for each spectrum, in their order. A spectrum that cannot be searched has no hits,
            and a note that says why.
        """
        check_is_fitted(self)
        check_number(ppm, "ppm", strict=True)
        check_number(top, "top", low=1, integer=True)
        check_choice(by, "by", ("mass", "formula"))
        self._check_pool(pool)
        check_prior(prior)
        if prior is not None and "prior" not in self.rankings_:
            raise ValueError("The model was fitted without a prior: fit it with one, too.")
        queries = read_queries(spectra, adduct, by, self.polarities_)
        found = list(queries.blank)
        done = len(found) - len(queries.order)
        for rows, pairs in batches(queries, pool, ppm, by):
            start = time.perf_counter()
            hits = self._hits(queries.ions.take(rows), pairs, pool, int(top), prior)
            seconds = (time.perf_counter() - start) / len(rows)
            for i, own in zip(rows, hits, strict=True):
                found[i] = queries.answered(i, own, seconds)
            done += len(rows)
            if progress is not None:
                progress(done, len(found))
        return found

    def _check_pool(self, pool: Any) -> None:
        if not hasattr(pool, "by_mass"):
            raise TypeError(
                "pool must be a MoleculePool: MoleculePool.open(path). Got "
                f"{type(pool).__name__} instead."
            )
        own = getattr(pool, "fingerprint_settings", self.fingerprint_)
        if dict(own) != self.fingerprint_:
            raise ValueError(
                f"The pool has the fingerprints {dict(own)}, and the model was fitted on "
                f"{self.fingerprint_}: fit it with pool=, or build the pool with these."
            )

    def _hits(
        self, ions: Ions, pairs: Pairs, pool: Any, top: int, prior: Mapping[str, float] | None
    ) -> list[dict[str, Any]]:
        """Return the best candidates of some spectra."""
        ranking = CandidateRanking.restored(
            self.rankings_["spectrum" if prior is None else "prior"]
        )
        ways = way_columns(self.ways_, ions.spectra, pairs, pool.fingerprints)
        columns = with_fragments(ways, ions, pairs, pool, self.bond_classes_)
        if prior is not None:
            columns = np.vstack([columns, prior_column(prior, pool, pairs.indices)])
        scores = ranking.coef @ columns
        cuts = Cuts.fitted(ranking.sizes, ranking.surprises, self.coverage)
        best = [
            ranked(pairs.indices[own], scores[own], top, cuts, ranking.confidence)
            for own in map(pairs.own, range(len(pairs)))
        ]
        return described(best, pool)

    def explain(
        self, spectrum: Any, smiles: str, *, ppm: float = 10.0, adduct: str | None = None
    ) -> Explanation:
        """Return which peaks of a spectrum weigh as parts of a molecule.

        Parameters
        ----------
        spectrum : one spectrum, or a table of one
            As in `identify`.
        smiles : str
        ppm : float, default 10
        adduct : str, optional
            Default that of the spectrum, else [M+H]+.

        Returns
        -------
        explanation : Explanation

        Examples
        --------
        >>> from skout import SpectrumIdentifier
        >>> caffeine = ([110.0713, 138.0662], [50.0, 999.0], 195.0877)
        >>> found = SpectrumIdentifier().explain(caffeine, "Cn1cnc2c1c(=O)n(C)c(=O)n2C")
        >>> found.formula, round(found.share, 2)
        (('C5H8N3+', 'C6H8N3O+'), 1.0)
        """
        is_table = hasattr(spectrum, "record") or hasattr(spectrum, "row_numbers")
        table = spectra_table(spectrum if is_table else [spectrum])
        if len(table) != 1:
            raise ValueError(f"spectrum must be one spectrum. Got {len(table)}.")
        molecule = parse_smiles([smiles])[0]
        rows = table.spectra
        return explain_peaks(
            rows.mz,
            rows.intensity,
            formula_of(molecule),
            smiles=smiles,
            adduct=adduct or str(table["adduct"][0]) or "[M+H]+",
            ppm=ppm,
        )


def _rankings(
    held: HeldOut,
    pairs: Pairs,
    candidates: Any,
    classes: tuple[str, ...] | None,
    prior: Mapping[str, float] | None,
) -> tuple[dict[str, CandidateRanking], dict[str, Any]]:
    """Return the rankings of held-out candidates without and with a prior, and what they score."""
    groups = scale_groups(classes)
    ranking, report = learned(held, groups)
    sizes, several = np.diff(held.indptr), ranking.sizes
    report |= {
        "n_several": len(several),
        "median_candidates": float(np.median(sizes)),
        "mean_candidates": float(np.mean(sizes)),
        "random": random_order(several),
    }
    if prior is None:
        return {"spectrum": ranking}, report
    column = prior_column(prior, candidates, pairs.indices)
    both = replace(held, columns=np.vstack([held.columns, column]))
    # a truth that the pool lacks was put among its candidates, and tells by being on no list
    known = np.maximum.reduceat(held.right & candidates.is_own(pairs.indices), held.indptr[:-1])
    some = both.of(known)
    with_prior, better = learned(some, np.append(groups, groups.max() + 1))
    if with_prior.coef[-1] <= 0.0:  # known molecules are not rarer: there is nothing to learn
        with_prior, better = replace(ranking, coef=np.append(ranking.coef, 0.0)), report
    right = some.split(some.right)
    # most candidates are on as many lists as others: these come in random order
    broken_ties = some.columns[-1] + 1e-9 * np.random.default_rng(0).random(len(some.right))
    report |= {
        "with_prior": better,
        "same_without_prior": learned(held.of(known), groups)[1],
        "prior": report_of(some.split(broken_ties), right),
    }
    return {"spectrum": ranking, "prior": with_prior}, report
