"""The library in one file: object -> coordinates -> a map -> coordinates -> object.

    x --encode--> rows --basis--> z in R^px --map--> f in R^py --decode--> y

START READING HERE. A structured predictor is an output basis, which turns objects into
coordinates; any regressor, which predicts them; and a decoder, which finds the object back.
The papers' methods are the ways to fill it in: `iokr`, `sisokr` and `dsokr`. Where to read on:

    fit      outputs: decoding/base.py, fit_outputs -> basis/basis.py, KernelBasis
             inputs: regressors/ridge.py -> basis/engine.py, moments
                     -> solvers/ridge/moments.py: coef = (Z'Z + n alpha I)^-1 Z'T      (4.10)
    predict  regressors/ridge.py, f(x) -> decoding/candidates.py, the best candidate
"""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from ._numerics.arrays import numpy_of
from ._numerics.validation import PartsByName, frames_out, resolve, spawn_seed
from .basis import KernelBasis
from .decoding import EmbeddedPool
from .decoding.base import (
    FittedOutputs,
    able,
    as_decoder,
    fit_outputs,
    plain_outputs,
    relate_coordinates,
)
from .decoding.search import Found
from .decoding.shards import decode, rank
from .kernels import as_kernel
from .kinds.scoring import COORDINATES, DecodedScore, can_be_scored, check_scoring, object_score
from .losses import LOSSES, Squared
from .regressors import InducedMachine, KernelRidge
from .regressors.private import check_not_private
from .rows import check_pair, encoded_weights, is_lazy, source, unpacked
from .rows.encode import named
from .sketches import as_sketch, least_rows
from .solvers.folds import Scorer, held_rows, squared_error

__all__ = [
    "ObjectPredictor",
    "StructuredPredictor",
    "dsokr",
    "iokr",
    "sisokr",
]


def as_basis(spec: Any) -> Any:
    """Return a fresh basis from a basis, or the exact one of a kernel or its name."""
    if hasattr(spec, "fit_transform"):
        return clone(spec)
    return KernelBasis(as_kernel(spec))


class ObjectPredictor(PartsByName):
    """Base of the predictors of objects, which hand rows on to an estimator inside."""

    #: The parameter that is the estimator inside.
    _inner: str
    # A pipeline hands it on, also where it is None.
    __metadata_request__score: ClassVar = {"sample_weight": None}

    @abstractmethod
    def _fitted_inner(self) -> Any:
        """Return the estimator inside, fitted."""

    @abstractmethod
    def _seen_outputs(self) -> Any:
        """Return a basis that was fitted on the training outputs."""

    @abstractmethod
    def _embedded(self, candidates: Any) -> Any:
        """Return candidates that are embedded, to be searched more than once, if they can be."""

    @abstractmethod
    def predict(self, X: Any, candidates: Any = None) -> Any:
        """Predict an object for each row of X.

        Parameters
        ----------
        X : what the predictor takes, n rows
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
            What to choose from: one pool for all rows, or one set for each; default the distinct
            training outputs. A pool of a StructuredPredictor may be a dask array: its shards are
            searched where they lie.

        Returns
        -------
        objects : n of them
            For dask collections a dask array.
        """

    @abstractmethod
    def rank(self, X: Any, candidates: Any = None, k: int = 10) -> Found:
        """Rank the candidates of each row of X.

        Parameters
        ----------
        X : what the predictor takes, n rows
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
            Default the distinct training outputs.
        k : int, default 10
            How many to return; of a shared pool that has fewer, all.

        Returns
        -------
        indices : ndarray of int, shape (n, k)
            Positions in the pool, or in the row's own set, best first; ties go to the lower
            position. A set of fewer than k candidates is padded with -1.
        scores : ndarray of shape (n, k)
            Those of a StructuredPredictor are 2 <f(x), z(c)> - k(c, c); padded with -inf. Both are
            dask arrays if X is one: compute them together.
        """

    @abstractmethod
    def truth_ranks(
        self, X: Any, Y: Any, candidates: Any = None, *, ties: str = "average"
    ) -> np.ndarray:
        """Return the rank of the true object among the distinct candidates; 1 is best.

        `skout.metrics` makes hits@k, the mean reciprocal rank and the mean rank of them.

        Parameters
        ----------
        X : what the predictor takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
        ties : "average", "worst" or "best", default "average"
            What to make of candidates that score as the truth does. With "average" a constant
            score gets no credit.

        Returns
        -------
        ranks : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """

    def score(self, X: Any, Y: Any, candidates: Any = None, scoring: Any = None) -> float:
        """Return how good predictions are, by the metric of their kind; 1 is perfect.

        It depends on no parameter of the kernels, so that a grid search may tune all of them.

        Parameters
        ----------
        X : what `predict` takes, n rows
        Y : objects, n of them
        candidates : as `predict` takes them, optional
        scoring : None, str or callable (Y, predictions) -> float, default None
            None is, with a candidate set for each query, the mean reciprocal rank of the truth;
            else the metric of the kind that the output kernel compares (`skout.kinds`; vectors of
            0 and 1 are label sets), R2 of vectors and of curves, and of other objects the share
            of exact matches. Names are "mean_reciprocal_rank" and those of `skout.kinds.metrics`;
            "kernel" is the similarity by the output kernel, to report but not to tune it.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        candidates = self._embedded(candidates)
        return object_score(
            scoring,
            self._seen_outputs(),
            Y,
            candidates,
            lambda: self.predict(X, candidates),
            lambda: self.truth_ranks(X, Y, candidates),
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who takes which metadata: the estimator inside in fit, this one `candidates`."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(method_mapping=mapping, **{self._inner: getattr(self, self._inner)})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(getattr(self, self._inner)).input_tags
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X, if the estimator inside knows it."""
        return self._fitted_inner().n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns of X, if the estimator inside saw any."""
        return self._fitted_inner().feature_names_in_


@frames_out
class StructuredPredictor(ObjectPredictor):
    """Predict structured objects: a regressor into the coordinates of an output kernel.

    Parameters
    ----------
    regressor : scikit-learn regressor with several outputs
        KernelRidge gives IOKR and its sketched variants, a random forest an output kernel forest.
    output_basis : KernelBasis, kernel or str
        Coordinates of the output objects; a kernel, or the name of one, stands for its exact basis.
        Where both sides are sketched, give it another seed than the regressor: from the same one,
        sketches of equal size take the same rows.
    decoder : decoder, str or None, default None
        From predicted coordinates back to objects; None chooses among candidates.
    scoring : None, str or callable (Y, predictions) -> float, default None
        What a sequence of alphas, or the epoch of a network with `validation`, is chosen by: the
        mean score of predicted objects over the folds of the regressor's `cv`. None is the metric
        of the kind of output and names are those of `score`; "coordinates" is the regressor's own
        loss, which costs less and tells less. At most 2,000 held-out rows are looked at.

    Attributes
    ----------
    output_basis_, regressor_, decoder_
        The fitted parts.
    cv_results_ : dict
        If something was chosen: "alpha", "mean_score", "std_error" (of the mean over the folds),
        "fold_score", shape (n_splits, n_alphas), and "scoring"; those of the regressor where it
        chose by itself.
    n_features_in_, feature_names_in_
        Those of the regressor, if it has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skout import KernelBasis, StructuredPredictor
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])  # label sets
    >>> forest = RandomForestRegressor(10, random_state=0)
    >>> model = StructuredPredictor(forest, KernelBasis("tanimoto")).fit(X, Y)
    >>> model.predict([[1.0], [18.0]])
    array([[1, 0, 1],
           [0, 1, 1]])
    """

    _inner = "regressor"
    __metadata_request__fit: ClassVar = {"groups": False, "candidates": False}
    _by_name: ClassVar[dict[str, Any]] = {"output_basis": as_basis, "decoder": as_decoder}

    def __init__(
        self, regressor: Any, output_basis: Any, decoder: Any = None, *, scoring: Any = None
    ) -> None:
        self.regressor = regressor
        self.output_basis = output_basis
        self.decoder = decoder
        self.scoring = scoring

    def fit(
        self, X: Any, Y: Any = None, groups: Any = None, candidates: Any = None, **fit_params: Any
    ) -> StructuredPredictor:
        """Fit the output basis, then the regressor on the coordinates, then the decoder.

        Parameters
        ----------
        X : what the regressor takes, n rows, or Blocks
            Of rows and outputs. The output basis is that of a sample, if there are many. Up to
            100,000 distinct outputs become candidates; where there are more, `predict` needs
            `candidates`.
        Y : objects that the output kernel encodes, n of them
            None if X are `Blocks`. Where their coordinates would take more memory than
            `memory_limits(coordinates_mb=...)`, KernelRidge gets them block by block. Y may be on
            disk, and both on a cluster where both bases have sketches: dask arrays with equal
            chunks, or lists of delayed blocks. The distinct outputs are looked for on the workers
            when they are first needed as candidates.
        groups : array of shape (n,), optional
            Rows of a group, such as spectra of one molecule, are never divided between training
            and held-out rows.
        candidates : objects, CandidateSets or list of lists, optional
            What held-out rows are decoded with, where alpha is chosen: one pool, or one set for
            each row, as `predict` will get them. Default the outputs of the training rows of the
            fold.
        **fit_params
            Passed to the regressor's fit, e.g. sample_weight; with scikit-learn's metadata
            routing, those that it requests.

        Returns
        -------
        self : StructuredPredictor
        """
        if _routing_enabled():
            fit_params = process_routing(self, "fit", **fit_params).regressor.fit
        if self.scoring is not None:
            check_scoring(self.scoring)
        if not isinstance(self.regressor, KernelRidge):
            check_not_private(self.regressor)
        basis, decoder = as_basis(self.output_basis), as_decoder(self.decoder)
        if chooses := hasattr(decoder, "basis_for"):  # it wants other coordinates
            basis = decoder.basis_for(basis, self.regressor)
        # objects -> coordinates
        lazy = getattr(self.regressor, "takes_sources", False)
        X, Y, fit_params = self._opened(X, Y, fit_params, basis)
        inputs, outputs = check_pair(X, plain_outputs(Y))
        with named("Y"):
            sparsely = getattr(self.regressor, "takes_sparse_targets", None) if chooses else None
            found = fit_outputs(basis, outputs, lazy=lazy, sparsely=sparsely)
        targets = found.targets
        if isinstance(targets, np.ndarray) and targets.shape[1] == 1:
            targets = targets[:, 0]  # as regressors want one output
        if getattr(self.regressor, "uses_residual", False):
            fit_params = {"residual": found.residual(), **fit_params}
        # inputs -> coordinates; and back to objects, which may choose the regressor's alpha
        regressor, rows = clone(self.regressor), inputs if lazy else inputs.load_for(self.regressor)
        if getattr(regressor, "task_matrix", None) is not None:
            relate_coordinates(regressor, basis)
        splits = None
        if not isinstance(getattr(regressor, "alpha", None), Real):  # a single one needs no choice
            splits = self._splits(found, inputs, fit_params.get("sample_weight"), groups)
        if splits is None:
            regressor.fit(rows, targets, **fit_params)
            decoder = found.fitted(decoder)
        else:
            decoder = found.fitted(decoder)
            scorer = self._scorer(found, decoder, *splits, candidates)
            regressor.fit_scored(rows, targets, scorer, **fit_params)
        if chooses:
            regressor, basis, decoder = found.shortened(regressor, decoder)
        # together, once all are fitted: a fit that fails changes nothing
        self.output_basis_, self.regressor_, self.decoder_ = basis, regressor, decoder
        return self

    def _splits(
        self, found: FittedOutputs, inputs: Any, sample_weight: Any, groups: Any
    ) -> tuple[Any, Any] | None:
        """Return the splits that something is chosen on and the rows of each that are looked at.

        None where there is nothing to choose, or the regressor does it alone.
        """
        if not hasattr(self.regressor, "choice_splits"):
            return None
        weights = encoded_weights(sample_weight, inputs)
        splits = self.regressor.choice_splits(len(inputs), found.objects, weights, groups)
        if not splits or (self.scoring == COORDINATES and groups is None):
            return None
        seed = getattr(self.regressor, "random_state", None)
        return splits, held_rows(splits, len(inputs), random_state=seed, weights=weights)

    def _scorer(
        self, found: FittedOutputs, decoder: Any, splits: Any, held: Any, candidates: Any
    ) -> Scorer:
        """Return what the regressor chooses alpha by."""
        if not can_be_scored(found, self.scoring, candidates):
            return Scorer(splits, held, squared_error(found.targets, held), COORDINATES)
        decoded = DecodedScore(found, decoder, self.scoring, splits, held, candidates)
        return Scorer(splits, held, decoded, decoded.name)

    @property
    def cv_results_(self) -> dict[str, Any]:
        """The scores that alpha was chosen by."""
        return self.regressor_.cv_results_

    def _opened(self, X: Any, Y: Any, fit_params: Any, basis: Any) -> tuple[Any, Any, Any]:
        """Return X, Y and the parameters of fit: those that Blocks bring, or what was given."""
        sizes = [least_rows(getattr(part, "sketch", None)) for part in (basis, self.regressor)]
        seed = getattr(self.regressor, "random_state", None)
        given = fit_params.get("sample_weight")
        X, Y, weights = unpacked(X, Y, given, seed=seed, size=max(sizes))
        if Y is None:
            raise ValueError("Y must be given, one object a row of X. Got None.")
        return X, Y, fit_params if weights is given else {**fit_params, "sample_weight": weights}

    def _fitted_inner(self) -> Any:
        return self.regressor_

    def _seen_outputs(self) -> Any:
        return self.output_basis_

    def _embedded(self, candidates: Any) -> Any:
        if is_lazy(candidates) or not hasattr(self.decoder_, "embed"):
            return candidates
        return None if candidates is None else self.embed(candidates)

    def predict_coordinates(self, X: Any) -> np.ndarray:
        """Return the predicted coordinates f(x) in the output basis.

        For a decoder that chooses its basis, such as `LossDecoder`, they may be weights of known
        outputs instead.

        Parameters
        ----------
        X : what the regressor takes, n rows

        Returns
        -------
        F : ndarray of shape (n, p)
        """
        check_is_fitted(self)
        return predicted(self.regressor_, X)

    def predict(self, X: Any, candidates: Any = None) -> Any:
        F = self.predict_coordinates(X)
        return decode(self.decoder_, F, candidates)

    def rank(self, X: Any, candidates: Any = None, k: int = 10) -> Found:
        F = self.predict_coordinates(X)
        return rank(self.decoder_, F, candidates, k)

    def embed(self, candidates: Any, path: Any = None) -> EmbeddedPool:
        """Encode and embed candidates once, to give them to `predict` and `rank` many times.

        Parameters
        ----------
        candidates : objects, CandidateSets or list of lists
            Arrays may be on disk.
        path : path, optional
            A .npy file to write the coordinates to, for more candidates than memory has room for.
            It is searched block by block, and must stay as long as the pool is used.

        Returns
        -------
        pool : EmbeddedPool
        """
        check_is_fitted(self)
        return able(self.decoder_, "embed", by="embed").embed(candidates, path)

    def truth_ranks(
        self, X: Any, Y: Any, candidates: Any = None, *, ties: str = "average"
    ) -> np.ndarray:
        F = self.predict_coordinates(X)
        decoder = able(self.decoder_, "truth_ranks", by="truth_ranks")
        return decoder.truth_ranks(F, Y, candidates, ties=ties)


def predicted(regressor: Any, X: Any) -> Any:
    """Return what a regressor predicts, shape (n, p); from all rows here if it takes no source."""
    if not getattr(regressor, "takes_sources", False):
        X = source(X).load_for(regressor)
    F = numpy_of(regressor.predict(X))
    return F[:, None] if F.ndim == 1 else F


def split_pipeline(model: Any) -> tuple[Pipeline | None, Any]:
    """Return the transformers of a Pipeline, None without any, and its last step, or the model."""
    if not isinstance(model, Pipeline):
        return None, model
    return model[:-1] if len(model) > 1 else None, model[-1]


def _decoder(spec: Any, **params: Any) -> Any:
    """Return a decoder that has the parameters which are given, unless it is an object itself."""
    params = {name: value for name, value in params.items() if value is not None}
    if not params or not isinstance(spec, str | None):
        return spec
    decoder = as_decoder(spec)
    return decoder.set_params(**{name: params[name] for name in params if hasattr(decoder, name)})


def iokr(
    input_kernel: Any = "gaussian",
    output_kernel: Any = "gaussian",
    *,
    input_sketch: Any = None,
    output_sketch: Any = None,
    alpha: Any = 1e-3,
    loss: Any = "squared",
    scoring: Any = None,
    cv: Any = 5,
    fit_intercept: bool = False,
    task_matrix: Any = None,
    solver: str = "auto",
    decoder: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    device: str | None = None,
    checkpoint: Any = None,
) -> StructuredPredictor:
    """Input output kernel regression: exact (2.33), or with either side sketched (4.10).

    Parameters
    ----------
    input_kernel, output_kernel : kernel, str or callable
    input_sketch, output_sketch : sketch, str or None, default None
        None is exact. Sketching the inputs gives SIOKR, the outputs ISOKR, both SISOKR.
    alpha : float or sequence of floats, default 1e-3
        Penalty; of a sequence the best in cross-validation, by `scoring`.
    loss : Loss or str, default "squared"
        "squared" is `KernelRidge`. Others are kernel-induced (5.15) and solved by
        `InducedMachine`: "huber" for instance bears wrong outputs.
    scoring : None, str or callable (Y, predictions) -> float, default None
        What alpha is chosen by, see `StructuredPredictor`.
    cv : int, splitter or iterable of splits, default 5
    fit_intercept : bool, default False
        Add a constant: f then shrinks to the mean of the outputs, not to zero.
    task_matrix : array, "learnt" or None, default None
        M of the kernel k M (2.20), see `KernelRidge`: of coordinates of the outputs, or, with a
        linear output kernel, of their columns. Only ridge regression learns one.
    decoder : decoder, str or None, default None
    random_state : None, int or Generator
        Seed of the inputs; that of the outputs is drawn from it.
    n_jobs : int, optional
        Threads of all parts but a decoder that is an object.
    device : str, optional
        "cuda" fits, embeds and searches on a card. None is where the data are.
    solver, verbose, checkpoint
        See `KernelRidge`.

    Returns
    -------
    predictor : StructuredPredictor

    Examples
    --------
    >>> import numpy as np
    >>> from skout import iokr
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])
    >>> iokr("gaussian", "tanimoto").fit(X, Y).predict([[1.0]])
    array([[1, 0, 1]])
    """
    seed = spawn_seed(random_state)  # or both sides would draw the same rows
    both: dict[str, Any] = {"n_jobs": n_jobs, "device": device}
    inputs = as_kernel(input_kernel), as_sketch(input_sketch)
    options = both | {
        "alpha": alpha, "cv": cv, "fit_intercept": fit_intercept, "task_matrix": task_matrix,
        "random_state": random_state, "verbose": verbose,
    }  # fmt: skip
    regressor: Any
    if (resolve(loss, LOSSES, "loss") if isinstance(loss, str) else type(loss)) is Squared:
        regressor = KernelRidge(*inputs, solver=solver, checkpoint=checkpoint, **options)
    elif name := "checkpoint" if checkpoint is not None else "solver" * (solver != "auto"):
        raise ValueError(f'{name} needs loss="squared". Got loss={loss!r}: leave it out.')
    else:
        regressor = InducedMachine(*inputs, loss=loss, **options)
    basis = KernelBasis(
        as_kernel(output_kernel), as_sketch(output_sketch), random_state=seed, **both
    )
    return StructuredPredictor(regressor, basis, _decoder(decoder, **both), scoring=scoring)


def sisokr(
    input_kernel: Any = "gaussian",
    output_kernel: Any = "gaussian",
    *,
    input_sketch: Any = "subsample",
    output_sketch: Any = "p_sparsified",
    alpha: Any = (1e-5, 1e-4, 1e-3, 1e-2),
    loss: Any = "squared",
    scoring: Any = None,
    cv: Any = 5,
    fit_intercept: bool = False,
    task_matrix: Any = None,
    solver: str = "auto",
    decoder: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    device: str | None = None,
    checkpoint: Any = None,
) -> StructuredPredictor:
    """Sketched input, sketched output kernel regression: both sides scale (4.10).

    `iokr` with other defaults: sub-sampled inputs and p-sparsified outputs, each of 30 sqrt(n) and
    at most 2000 rows, and an `alpha` that cross-validation chooses.

    Parameters
    ----------
    input_kernel, output_kernel : kernel, str or callable
    input_sketch, output_sketch : sketch, str or None
    alpha : float or sequence of floats, default (1e-5, 1e-4, 1e-3, 1e-2)
        One number is quicker: 1e-3 suits a few noisy columns, 1e-5 the many columns of text.
    loss, scoring, cv, fit_intercept, task_matrix, solver, decoder, random_state, n_jobs, verbose,
    device, checkpoint
        As in `iokr`.

    Returns
    -------
    predictor : StructuredPredictor

    Examples
    --------
    >>> import numpy as np
    >>> from skout import sisokr
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])
    >>> sisokr("gaussian", "tanimoto", random_state=0).fit(X, Y).predict([[1.0]])
    array([[1, 0, 1]])
    """
    return iokr(**locals())  # all parameters, as they were given


def dsokr(
    module: Any,
    output_kernel: Any = "gaussian",
    *,
    output_sketch: Any = "subsample",
    output_rank: int | None = None,
    loss: Any = "squared",
    training: Any = None,
    validation: Any = 0.0,
    patience: int | None = None,
    metric: Any = None,
    scoring: Any = "coordinates",
    decoder: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    device: str | None = None,
    checkpoint: Any = None,
) -> StructuredPredictor:
    """Deep sketched output kernel regression: a network into a sketched output basis (5.13).

    Needs PyTorch: `pip install skout[deep]`.

    Parameters
    ----------
    module : nn.Module class, instance, or callable of the number of outputs
        The number of outputs is the rank of the output basis.
    output_kernel : kernel, str or callable
    output_sketch : sketch, str or None, default "subsample"
        `skout.theory.perfect_h_curve` and `leverage_scores` help to choose its size.
    output_rank : int, optional
        Outputs of the network, if fewer than the sketch has: the largest coordinates.
    loss : Loss or str, default "squared"
        Kernel-induced: "squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive".
    training, validation, patience, metric, verbose, checkpoint
        See `skout.deep.NeuralRegressor`.
    scoring : None, str or callable (Y, predictions) -> float, default "coordinates"
        What the best epoch is chosen by on the rows that `validation` holds out, unless there is a
        `metric`: the loss, or a score of decoded objects as in `StructuredPredictor`.
    decoder : decoder, str or None, default None
    random_state : None, int or Generator
        Seed of the network; that of the outputs is drawn from it.
    n_jobs : int, optional
        Threads of the output basis and, unless it is an object, of the decoder.
    device : str, optional
        "cuda" trains, embeds and searches on a card; an output kernel that does not run there
        stays on the host. "auto" is a card if there is one. None is where the data are.

    Returns
    -------
    predictor : StructuredPredictor

    Examples
    --------
    >>> import numpy as np
    >>> from skout import dsokr
    >>> from skout.deep import MLP, Training
    >>> X = np.arange(20.0)[:, None] / 20
    >>> Y = np.where(X < 0.5, [[1, 0, 1]], [[0, 1, 1]])
    >>> model = dsokr(MLP, "tanimoto", training=Training(20), random_state=0)
    >>> model.fit(X, Y).predict([[0.1]])
    array([[1, 0, 1]])
    """
    from .deep import NeuralRegressor  # PyTorch is imported here, not with skout

    seed, kernel = spawn_seed(random_state), as_kernel(output_kernel)
    regressor = NeuralRegressor(
        module,
        loss=loss,
        training=training,
        validation=validation,
        patience=patience,
        metric=metric,
        random_state=random_state,
        verbose=verbose,
        device=device,
        checkpoint=checkpoint,
    )
    basis = KernelBasis(
        kernel,
        as_sketch(output_sketch),
        whiten="eigh",
        rank=output_rank,
        random_state=seed,
        n_jobs=n_jobs,
        device=device if kernel.runs_on_device else None,
    )
    decoder = _decoder(decoder, n_jobs=n_jobs, device=device)
    return StructuredPredictor(regressor, basis, decoder, scoring=scoring)
