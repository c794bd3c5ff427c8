"""From the spectrum of a molecule to its structure: learn a library, then search a pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from skout.dev import PartsByName, check_choice, check_level, check_number, check_rng
from skout.molecules import fingerprints, parse_smiles
from skout.typing import Labels, RandomState

from ..pools.building import SETTINGS
from ..pools.priors import check_prior, prior_column
from ..readers import SpectraLike, spectra_table
from .calibration import Cuts
from .candidates import CandidatePool
from .columns import CandidateModels, candidate_columns
from .design import Design, combined_kernel, few_a_group
from .explaining import explain_peaks
from .fragmentation import FragmentModel
from .inputs import formula_of, read_library
from .learning import learned_models
from .queries import batches, read_queries
from .ranking import (
    CandidateRanking,
    HeldOut,
    Weights,
    calibrated,
    random_order,
    report_of,
    weighed,
    with_prior,
)
from .results import Explanation, Identification
from .search import Pairs, described, ranked
from .side_by_side import fingerprint_reader, widths_of
from .validation import Candidates, held_out
from .ways import BothWays

# Lists of one formula with several candidates that their ranking is calibrated on, at least.
_FEWEST_LISTS = 100


class SpectrumIdentifier(PartsByName):
    """Identify molecules by their spectra: a kernel model, with candidates from a pool.

    `fit` learns both ways between spectra and molecules (`TwoWay`): a kernel on spectra that
    ALIGNF combines of six, Tanimoto kernels on fingerprints, landmarks that are drawn by molecule;
    one model for both polarities and all adducts. Peaks get formulas, parts of the candidate's, and
    candidates are broken into fragments: a second model, learned too, says how probable those are
    that explain peaks. In folds of laboratories, or of molecules where spectra do not say their
    laboratory, it learns how much each of these counts (a softmax over candidates, as in
    `Reranker`), and measures how good the model is on what it has not seen, how probable its
    candidates are, and how large prediction sets must be. `identify` takes the molecules of the
    right mass from a pool, and ranks them.

    Needs RDKit: `pip install "skout[chem]"`.

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
        Arguments of `skout.molecules.fingerprints`. Default those of the pool that `fit` takes,
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
        of both, and "same_without_prior". "by_formula" has scores among candidates of the truth's
        formula, where there are at least 100 such lists.
    rankings_ : dict
        For candidates by "mass" and by "formula", each with "spectrum", and "prior" where there is
        one: "coef" of the columns of candidates,
        "confidence" (temperature, intercept and slope that make probabilities of scores), and of
        held-out spectra with several candidates "sizes", how many, and "surprises", -log of the
        probability of the truth, which prediction sets are made with.
    bond_classes_, fragment_weights_ : tuple of str, and array; or None
        Classes of the bonds that were broken, as seen from the fragment, and weights of these, and
        of how a fragment was cut and how large it is: for positive and for negative ions, by the
        hydrogens that move, and for any number of these. None where candidates are not broken.
    polarities_ : tuple of str
        Those of the library.

    Examples
    --------
    >>> from skout import SpectrumIdentifier
    >>> from skout.datasets import load
    >>> data = load("massbank-sample")
    >>> rows = slice(0, 60)
    >>> model = SpectrumIdentifier(n_landmarks=(50, 50), cv=2, random_state=0)
    >>> model = model.fit(data.X[rows], data.Y[rows], groups=range(60))
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
        random_state: RandomState = None,
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
        spectra: SpectraLike,
        smiles: Sequence[str] | np.ndarray | None = None,
        groups: Labels = None,
        *,
        pool: CandidatePool | None = None,
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
        molecule = library.molecule[rows]
        spectra = library.ions.spectra[rows]
        kernel = combined_kernel(spectra, bits[molecule], molecule, widths, rng)
        design = Design(kernel, *self.n_landmarks, widths, int(rng.integers(2**31)), self.n_jobs)
        candidates = Candidates(pool, float(ppm), bits, library)
        with tqdm(total=self.cv + 2, desc="fitting", disable=not self.verbose) as bar:
            rows_held, pairs, held = held_out(
                library,
                design,
                rows,
                candidates,
                fragments=self.fragments,
                cv=self.cv,
                n_validation=self.n_validation,
                rng=rng,
                progress=bar.update,
            )
            models = learned_models(library, rows, design, bits, self.fragments)
            bar.update()
            rankings, report = _rankings(held, pairs, candidates, prior)
            bar.update()
        self.ways_: BothWays = models.ways
        self.rankings_: dict[str, dict[str, dict[str, Any]]] = {
            by: {name: ranking.state for name, ranking in variants.items()}
            for by, variants in rankings.items()
        }
        learned = models.fragments
        self.bond_classes_: tuple[str, ...] | None = None if learned is None else learned.classes
        self.fragment_weights_: np.ndarray | None = None if learned is None else learned.weights
        self.fingerprint_: dict[str, Any] = dict(settings)
        self.polarities_: tuple[str, ...] = library.polarities
        self.validation_: dict[str, Any] = report | {
            **candidates.facts(rows_held),
            "coverage": float(self.coverage),
            "ppm": float(ppm),
        }
        return self

    def _check(self, ppm: float) -> None:
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
        spectra: SpectraLike,
        pool: CandidatePool,
        *,
        ppm: float = 10.0,
        top: int = 25,
        by: str = "mass",
        adduct: str | None = None,
        prior: Mapping[str, float] | None = None,
        merge: Sequence[Hashable] | None = None,
        progress: Callable[[int, int], object] | None = None,
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
            Of spectra that do not say theirs, such as "[M+H]+", or by polarity "[M+H]+,[M-H]-".
        prior : mapping of InChIKey skeletons to numbers, optional
            As in `fit`, which must have had one. Default: the spectrum alone decides.
        merge : sequence of labels, optional
            One for each spectrum: those of equal label, such as several energies or scans of one
            compound, are identified together, by the mean of what each says. Where a label is "",
            and by default, each spectrum is by itself.
        progress : callable (done, total), optional
            Called with how many spectra are done.

        Returns
        -------
        identifications : list of Identification
            One for each spectrum, or compound, in their order. What cannot be searched has no hits,
            and a note that says why.
        """
        check_is_fitted(self)
        check_number(ppm, "ppm", strict=True)
        check_number(top, "top", low=1, integer=True)
        check_choice(by, "by", ("mass", "formula"))
        if not hasattr(pool, "by_mass"):
            raise TypeError(
                "pool must be a MoleculePool: MoleculePool.open(path). Got "
                f"{type(pool).__name__} instead."
            )
        read = fingerprint_reader(pool, self.fingerprint_)
        check_prior(prior)
        rankings = self.rankings_[by]
        if prior is not None and "prior" not in rankings:
            raise ValueError("The model was fitted without a prior: fit it with one, too.")
        ranking = CandidateRanking.restored(rankings["spectrum" if prior is None else "prior"])
        queries = read_queries(spectra, adduct, by, self.polarities_, merge)
        identifications = list(queries.blank)
        done = len(identifications) - len(queries.order)
        for batch in batches(queries, pool, ppm, by):
            start = time.perf_counter()
            ions = queries.ions.take(batch.spectra)
            columns = candidate_columns(self.models, ions, batch.pairs, pool, read)
            hits = self._hits(*batch.merged(columns), ranking, pool, int(top), prior)
            seconds = (time.perf_counter() - start) / len(batch.compounds)
            for i, description in zip(batch.compounds, hits, strict=True):
                identifications[i] = queries.identified(i, description, seconds)
            done += len(batch.compounds)
            if progress is not None:
                progress(done, len(identifications))
        return identifications

    @property
    def models(self) -> CandidateModels:
        """The models that score candidates: both ways, and fragments."""
        fragments = None
        if self.bond_classes_ is not None and self.fragment_weights_ is not None:
            fragments = FragmentModel(self.bond_classes_, self.fragment_weights_)
        return CandidateModels(self.ways_, fragments)

    def _hits(
        self,
        columns: np.ndarray,
        pairs: Pairs,
        ranking: CandidateRanking,
        pool: CandidatePool,
        top: int,
        prior: Mapping[str, float] | None,
    ) -> list[dict[str, Any]]:
        """Return the best candidates of compounds by their columns."""
        if prior is not None:
            columns = np.vstack([columns, prior_column(prior, pool, pairs.indices)])
        scores = ranking.coef @ columns
        cuts = Cuts.fitted(ranking.sizes, ranking.surprises, self.coverage)
        best = [
            ranked(pairs.indices[entries], scores[entries], top, cuts, ranking.confidence)
            for entries in map(pairs.entries, range(len(pairs)))
        ]
        return described(best, pool)

    def explain(
        self, spectrum: SpectraLike, smiles: str, *, ppm: float = 10.0, adduct: str | None = None
    ) -> Explanation:
        """Return which peaks of a spectrum weigh as parts of a molecule, and these fragments.

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
        >>> explanation = SpectrumIdentifier().explain(caffeine, "Cn1cnc2c1c(=O)n(C)c(=O)n2C")
        >>> explanation.formula, round(explanation.share, 2)
        (('C5H8N3+', 'C6H8N3O+'), 1.0)
        """
        is_table = hasattr(spectrum, "record") or hasattr(spectrum, "row_numbers")
        table = spectra_table(spectrum if is_table else [spectrum])
        if len(table) != 1:
            raise ValueError(f"spectrum must be one spectrum. Got {len(table)}.")
        rows = table.spectra
        return explain_peaks(
            rows.mz,
            rows.intensity,
            formula_of(parse_smiles([smiles])[0]),
            smiles=smiles,
            adduct=adduct or str(table["adduct"][0]) or "[M+H]+",
            ppm=ppm,
        )


def _rankings(
    held: HeldOut,
    pairs: Pairs,
    candidates: Candidates,
    prior: Mapping[str, float] | None,
) -> tuple[dict[str, dict[str, CandidateRanking]], dict[str, Any]]:
    """Return rankings by mass and by formula, without and with a prior, and what they score."""
    weights = weighed(held)
    ranking, report = calibrated(held, weights)
    rankings = {"mass": {"spectrum": ranking}}
    sizes, several = np.diff(held.indptr), ranking.sizes
    report |= {
        "n_several": len(several),
        "median_candidates": float(np.median(sizes)),
        "mean_candidates": float(np.mean(sizes)),
        "random": random_order(several),
    }
    alike = held.of(held.alike)
    formula_weights = weighed(alike, weights.alpha)
    first, scores = calibrated(alike, formula_weights)
    enough = len(first.sizes) >= _FEWEST_LISTS
    if enough:
        rankings["formula"] = {"spectrum": first}
        report["by_formula"] = scores | {"n_several": len(first.sizes)}
    if prior is not None:
        column = prior_column(prior, candidates, pairs.indices)
        fair = _fair(held, pairs, candidates, column)
        both = with_prior(held, weights, column, fair)
        rankings["mass"]["prior"] = _of_lists(held, both, fair)
        report |= _of_prior(held, fair, column, weights.scores, both.scores)
        if enough:
            fair_alike = fair[held.alike]
            both = with_prior(alike, formula_weights, column[held.alike], fair_alike)
            rankings["formula"]["prior"] = _of_lists(alike, both, fair_alike)
    rankings.setdefault("formula", rankings["mass"])
    return rankings, report


def _fair(held: HeldOut, pairs: Pairs, candidates: Candidates, prior: np.ndarray) -> np.ndarray:
    """Return which candidates a prior is learned from, (pairs,) bool.

    A truth that the pool lacks was put among its candidates, and tells by being on no list. So do
    those that the pool has only because they were measured: where most of its molecules that are on
    no list were, it is learned from those that are on one.
    """
    distinct, place = np.unique(pairs.indices, return_inverse=True)
    measured = np.isin(candidates.keys(distinct), candidates.measured.keys)[place]
    in_pool, unnamed = candidates.is_from_pool(pairs.indices), prior == 0.0
    telling = 2 * measured[unnamed & in_pool].sum() > (unnamed & in_pool).sum()
    fair: np.ndarray = in_pool & ~unnamed if telling else in_pool
    truths = np.maximum.reduceat(held.right & fair, held.indptr[:-1])
    fair &= held.each(truths)
    return fair


def _of_lists(held: HeldOut, weights: Weights, fair: np.ndarray) -> CandidateRanking:
    """Return a ranking with a prior, calibrated on candidates that it was learned from.

    A pool of lists has no others, and where it has, those on no list are less often the truth.
    """
    listed = held.of(fair)
    if (np.diff(listed.indptr) > 1).sum() < _FEWEST_LISTS:
        return calibrated(held, weights)[0]
    return calibrated(listed, replace(weights, scores=weights.scores[fair]))[0]


def _of_prior(
    held: HeldOut, fair: np.ndarray, prior: np.ndarray, without: np.ndarray, both: np.ndarray
) -> dict[str, Any]:
    """Return scores with the prior, without it, and by it alone, of candidates that are fair."""
    if not fair.any():
        return {}
    listed = held.of(fair)
    # most candidates are on as many lists as others: these come in random order
    blind = prior + 1e-9 * np.random.default_rng(0).random(len(prior))
    columns = {"with_prior": both, "same_without_prior": without, "prior": blind}
    right = listed.split(listed.right)
    return {name: report_of(listed.split(scores[fair]), right) for name, scores in columns.items()}
