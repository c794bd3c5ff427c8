"""From the spectrum of a molecule to its structure: learn a library, then search a pool."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from skout._numerics.validation import check_level
from skout.decoding import CandidateSets
from skout.decoding.sets import set_scores
from skout.dev import PartsByName, check_choice, check_number, check_rng
from skout.molecules import fingerprints, parse_smiles

from ..readers import spectra_table
from .calibration import Confidence, Cuts
from .design import Design, combined_kernel, few_a_group
from .inputs import formula_of, read_library
from .last_word import features_of
from .peaks import explain_peaks
from .queries import batches, read_queries
from .results import Explanation, Identification
from .search import Pairs, described, pair_scores, ranked
from .validation import Candidates, judge

__all__ = ["SpectrumIdentifier"]

# As pools have them unless told otherwise.
_FINGERPRINT = {"kind": "morgan", "n_bits": 4096, "radius": 2}


class SpectrumIdentifier(PartsByName):
    """Identify molecules by their spectra: a kernel model, with candidates from a pool.

    `fit` learns both ways between spectra and molecules (`TwoWay`): a kernel on spectra that
    ALIGNF combines of six, Tanimoto kernels on fingerprints, landmarks that are drawn by molecule.
    In folds of molecules it chooses how much the forward way counts, learns a last word on the
    scores by both ways where this pays (see `Reranker`), and measures how good the model is on
    molecules that it has not seen, how sure it may be, and how large prediction sets must be.
    `identify` takes the molecules of the right mass from a pool, and ranks them.

    Needs RDKit: `pip install skout[chem]`.

    Parameters
    ----------
    n_landmarks : tuple of two int or None, default (1500, 800)
        Among spectra and among molecules; None is all of them.
    most_spectra : int, default 6
        Spectra of a molecule that are learnt from; more of them are drawn from.
    n_validation : int, default 1000
        Molecules that the model is judged on, at most.
    cv : int, default 5
        Folds of molecules.
    coverage : float, default 0.9
        Probability that a prediction set holds the molecule, where this is one of several
        candidates: for few candidates and for many alike.
    fingerprint : dict, optional
        Arguments of `skout.molecules.fingerprints`. Default those of the pool that `fit` is given,
        else Morgan fingerprints of 4096 bits.
    random_state : None, int or Generator
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    verbose : bool, default False
        Whether to show progress.

    Attributes
    ----------
    predictor_ : TwoWay
        The model behind it, from spectra to fingerprints.
    validation_ : dict
        "top_1", "top_10" and "mrr_25" on molecules that were held out, each with its standard
        error "..._se", "calibration_error" of the confidence, whether there is a "last_word" and
        what it adds to "mrr_25" ("last_word_gain"), "n_molecules", sizes of the candidate
        sets and where these are from, and "in_reach", the share of spectra of the library whose
        mass is within ppm of their molecule's; others are not judged.
    confidence_ : tuple of three floats
        Temperature, intercept and slope that make probabilities of scores.
    last_word_ : ndarray or None
        Coefficients of scores by both ways, where a last word is better than their sum by a
        standard error of "mrr_25".
    sizes_, surprises_ : ndarrays of shape (n,)
        Of held-out molecules with several candidates: how many, and -log of the probability of the
        truth. Prediction sets are made with these.
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
        n_validation: int = 1000,
        cv: int = 5,
        coverage: float = 0.9,
        fingerprint: dict[str, Any] | None = None,
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
            first 14 letters of their InChIKeys.
        pool : MoleculePool, optional
            What the model is judged with: as it will be used. Default the molecules of the library
            of nearly equal mass, among which it is easier to be right.
        ppm : float, default 10
            How far masses of candidates are from that of the spectrum.
        on_error : "raise" or "skip", default "raise"
            What to do about spectra without a valid SMILES or without a precursor.

        Returns
        -------
        self : SpectrumIdentifier
        """
        self._check(ppm)
        rng = check_rng(self.random_state)
        library = read_library(spectra, smiles, groups, on_error=on_error)
        settings = self.fingerprint or getattr(pool, "fingerprint_settings", None) or _FINGERPRINT
        bits = fingerprints(library.smiles, n_jobs=self.n_jobs, **settings)
        rows = few_a_group(library.groups, self.most_spectra, rng)
        X, molecule = library.spectra[rows], library.molecule[rows]
        Y = bits[molecule]
        kernel = combined_kernel(X, Y, molecule, rng)
        design = Design(kernel, *self.n_landmarks, int(rng.integers(2**31)), self.n_jobs)
        candidates = Candidates(pool, float(ppm), bits, library.exact)
        with tqdm(total=self.cv + 1, desc="fitting", disable=not self.verbose) as bar:
            judged = judge(
                library,
                design,
                rows,
                candidates,
                cv=self.cv,
                n_validation=self.n_validation,
                rng=rng,
                tell=lambda _: bar.update(),
            )
            predictor = design.two_ways(
                molecule, judged.option.weight, judged.option.normalisation
            ).fit(X, Y)
            bar.update()
        # candidates come from pools: those of the library need not travel with the model
        predictor.decoder_ = predictor.decoder_.without_pool()
        self.predictor_, self.last_word_ = predictor, judged.word
        self.confidence_ = tuple(judged.confidence)
        self.sizes_, self.surprises_ = judged.sizes, judged.surprises
        self.fingerprint_ = dict(settings)
        self.polarities_ = library.polarities
        self.validation_ = judged.report | {
            "n_spectra": len(library.molecule),
            "n_library": len(library.smiles),
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
        progress: Callable[[int, int], Any] | None = None,
    ) -> list[Identification]:
        """Rank the molecules of a pool that could have made each spectrum.

        Parameters
        ----------
        spectra : SpectraTable, Spectra, or list of spectra
        pool : MoleculePool
            Or what has its methods `by_mass`, `by_formula`, `smiles`, `names`, `masses`,
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
        progress : callable (done, total), optional
            Told how many spectra are done.

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
        queries = read_queries(spectra, adduct, by, self.polarities_)
        found = list(queries.blank)
        done = len(found) - len(queries.order)
        for rows, pairs in batches(queries, pool, ppm, by):
            start = time.perf_counter()
            hits = self._hits(queries.spectra[rows], pairs, pool, int(top))
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

    def _hits(self, spectra: Any, pairs: Pairs, pool: Any, top: int) -> list[dict[str, Any]]:
        """Return what is found for some spectra."""
        model, sure = self.predictor_, Confidence(*self.confidence_)
        cuts = Cuts.fitted(self.sizes_, self.surprises_, self.coverage)
        decoder, F = model.decoder_, model.predict_coordinates(spectra)

        def score(numbers: np.ndarray, sets: CandidateSets) -> np.ndarray:
            embedded = decoder.embed(sets)
            own, queries = F[numbers], decoder.queries(F[numbers], embedded)
            given = embedded.embedding, sets.indptr, embedded.members
            scores = set_scores(queries, *given, n_jobs=self.n_jobs)
            if self.last_word_ is None:
                return scores[None]
            parts = model.output_basis_.scores_by_direction(own, *given)
            return np.vstack([scores, *parts.values()])

        table = pair_scores(pairs, pool.fingerprints, score)
        scores = table.ravel()
        if self.last_word_ is not None:
            scores = features_of(table, pairs.indptr) @ self.last_word_
        found = [
            ranked(pairs.indices[own], scores[own], top, cuts, sure)
            for own in map(pairs.own, range(len(pairs)))
        ]
        return described(found, pool)

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
