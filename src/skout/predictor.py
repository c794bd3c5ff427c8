"""The library in one file: object -> coordinates -> a map -> coordinates -> object.

    x --encode--> rows --basis--> z in R^px --map--> f in R^py --decode--> y

START READING HERE. A structured predictor is an output basis, which turns objects into
coordinates; any regressor, which predicts them; and a decoder, which finds the object.
The papers' methods are functions that fill it in: `iokr`, `sisokr` and `dsokr`. Where to read on:

    fit      outputs: decoding/base.py, fit_outputs -> basis/engine.py, KernelBasis
             inputs: regressors/ridge.py -> basis/engine.py, moments
                     -> solvers/ridge/moments.py: coef = (Z'Z + n alpha I)^-1 Z'T      (4.10)
    predict  regressors/ridge.py, f(x) -> decoding/candidates.py, the best candidate
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, overload

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from ._numerics.arrays import numpy_of
from ._numerics.estimators import PartsByName, frames_out
from ._numerics.typing import (
    Array,
    Candidates,
    Estimator,
    Inputs,
    Labels,
    Objects,
    PathLike,
    RandomState,
    Scoring,
    State,
    Weights,
)
from ._numerics.validation import resolve, spawn_seed
from .basis import KernelBasis
from .decoding import EmbeddedPool
from .decoding.base import (
    Decoder,
    DecoderLike,
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
from .kernels.base import KernelLike
from .kinds.scoring import COORDINATES, DecodedScore, can_be_scored, check_scoring, object_score
from .losses import LOSSES, LossLike, Squared
from .regressors import InducedMachine, KernelRidge
from .rows import Blocks, Source, check_pair, encoded_weights, is_lazy, source, unpacked
from .rows.encode import named
from .sketches import SketchLike, as_sketch
from .solvers.folds import CV, Alphas, Scorer, held_rows, squared_error

if TYPE_CHECKING:  # PyTorch is optional
    from numpy.typing import ArrayLike

    from .deep.modules import ModuleLike
    from .deep.training import Metric, Training


class Regressor(Protocol):
    """What is asked of a regressor, here or in scikit-learn: coordinates in, coordinates out."""

    def fit(self, X: Objects, y: Array, /) -> object: ...

    def predict(self, X: Objects, /) -> Objects: ...


class OutputBasis(Protocol):
    """What is asked of a basis: objects in, coordinates out."""

    def fit_transform(self, Y: Objects, /) -> Objects: ...

    def transform(self, Y: Objects, /) -> Objects: ...


def as_basis(spec: KernelLike | OutputBasis) -> Any:
    """Return a fresh basis from a basis, or the exact one of a kernel or its name."""
    if hasattr(spec, "fit_transform"):
        return clone(spec)
    return KernelBasis(as_kernel(spec))


class ObjectPredictor(PartsByName):
    """Base class of predictors of objects, which contain an estimator that takes the rows."""

    #: The parameter that is the inner estimator.
    _inner: str
    # A pipeline passes it on even where it is None.
    __metadata_request__score: ClassVar = {"sample_weight": None}

    @abstractmethod
    def _fitted_inner(self) -> Estimator:
        """Return the fitted inner estimator."""

    @abstractmethod
    def _seen_outputs(self) -> Estimator:
        """Return a basis that was fitted on the training outputs."""

    @abstractmethod
    def _embedded(self, candidates: Candidates) -> Candidates:
        """Return embedded candidates, to be searched more than once, if the decoder can embed."""

    @abstractmethod
    def predict(self, X: Objects, candidates: Candidates = None) -> Objects:
        """Predict an object for each row of X.

        Parameters
        ----------
        X : what the predictor takes, n rows
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
            The candidates: one pool for all rows, or one set for each; default the distinct
            training outputs. A pool of a StructuredPredictor may be a dask array: workers search
            its chunks.

        Returns
        -------
        objects : n of them
            For dask collections a dask array.
        """

    @abstractmethod
    def rank(self, X: Objects, candidates: Candidates = None, k: int = 10) -> Found:
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
            Positions in the pool, or in the row's own set, best first; ties go to the lower one. A
            set of fewer than k candidates is padded with -1.
        scores : ndarray of shape (n, k)
            Those of a StructuredPredictor are 2 <f(x), z(c)> - k(c, c); padded with -inf. Both are
            dask arrays if X is one: compute them together.
        """

    @abstractmethod
    def truth_ranks(
        self, X: Objects, Y: Objects, candidates: Candidates = None, *, ties: str = "average"
    ) -> np.ndarray:
        """Return the rank of the true object among the distinct candidates; 1 is best.

        `skout.metrics` makes hits@k, the mean reciprocal rank and the mean rank of them.

        Parameters
        ----------
        X : what the predictor takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
        ties : "average", "worst" or "best", default "average"
            The rank of the truth among candidates of equal score.

        Returns
        -------
        ranks : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """

    def score(
        self, X: Objects, Y: Objects, candidates: Candidates = None, scoring: Scoring = None
    ) -> float:
        """Return the score of predictions by the metric of the kind of output; 1 is perfect.

        It depends on no parameter of the kernels, so that a grid search may tune all of them.

        Parameters
        ----------
        X : what `predict` takes, n rows
        Y : objects, n of them
        candidates : as `predict` takes them, optional
        scoring : None, str or callable (Y, predictions) -> float, default None
            None is, with a candidate set for each query, the mean reciprocal rank of the truth;
            else the metric of the kind of output (`skout.kinds`; vectors of 0 and 1 are label
            sets), R2 of vectors and curves, and of other objects the share of exact matches. Names
            are "mean_reciprocal_rank", those of `skout.kinds.metrics`, and "kernel", the similarity
            by the output kernel, to report but not to tune it.
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
        """Return the metadata routing: of fit to the inner estimator, `candidates` to this one."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(method_mapping=mapping, **{self._inner: getattr(self, self._inner)})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(getattr(self, self._inner)).input_tags
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X, if the inner estimator has it."""
        return int(self._fitted_inner().n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns of X, if the inner estimator has them."""
        return np.asarray(self._fitted_inner().feature_names_in_)


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
        mean score of predicted objects over the folds of the regressor's `cv`, of at most 2,000
        rows. None and names are as in `score`; "coordinates" is the regressor's own loss, cheaper
        and less precise.

    Attributes
    ----------
    output_basis_, regressor_, decoder_
        The fitted parts.
    cv_results_ : dict
        If something was chosen: "alpha", "mean_score", "std_error" over the folds, "fold_score",
        shape (n_splits, n_alphas), and "scoring"; or those of the regressor.
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

    decoder_: Any
    output_basis_: Any
    regressor_: Any

    def __init__(
        self,
        regressor: Regressor | Estimator,
        output_basis: KernelLike | OutputBasis,
        decoder: DecoderLike = None,
        *,
        scoring: Scoring = None,
    ) -> None:
        self.regressor: Any = regressor  # subclasses have it as a property
        self.output_basis = output_basis
        self.decoder = decoder
        self.scoring = scoring

    @overload
    def fit(
        self, X: Blocks, Y: None = None, groups: Labels = None, candidates: Candidates = None
    ) -> StructuredPredictor: ...
    @overload
    def fit(
        self,
        X: Objects,
        Y: Objects,
        groups: Labels = None,
        candidates: Candidates = None,
        **fit_params: object,
    ) -> StructuredPredictor: ...

    def fit(
        self,
        X: Inputs,
        Y: Objects | None = None,
        groups: Labels = None,
        candidates: Candidates = None,
        **fit_params: object,
    ) -> StructuredPredictor:
        """Fit the output basis, then the regressor on the coordinates, then the decoder.

        Parameters
        ----------
        X : what the regressor takes, n rows, or Blocks
            Of many outputs a sample sets the output basis, and only if at most 100,000 of them
            differ do they become the default candidates.
        Y : objects that the output kernel encodes, n of them
            None if X are `Blocks`. Coordinates beyond `memory_limits(coordinates_mb=...)` are
            computed block by block for KernelRidge. Y may be on disk, and both on a cluster where
            both bases have sketches: dask arrays with equal chunks, or lists of delayed blocks.
        groups : array of shape (n,), optional
            Rows of a group, such as spectra of one molecule, are never divided between training
            and held-out rows.
        candidates : objects, CandidateSets or list of lists, optional
            Candidates of held-out rows where alpha is chosen: one pool, or one set for each row, as
            at prediction. Default the outputs of the training rows of the fold.
        **fit_params
            Of the regressor's fit, e.g. sample_weight; with metadata routing, those it requests.
        """
        if _routing_enabled():
            fit_params = process_routing(self, "fit", **fit_params).regressor.fit
        if self.scoring is not None:
            check_scoring(self.scoring)
        basis, decoder = as_basis(self.output_basis), as_decoder(self.decoder)
        if chooses := hasattr(decoder, "basis_for"):  # it wants other coordinates
            basis = decoder.basis_for(basis, self.regressor)
        # objects -> coordinates
        lazy = getattr(self.regressor, "takes_sources", False)
        rows, Y, fit_params = self._opened(X, Y, fit_params, basis)
        inputs, outputs = check_pair(rows, plain_outputs(Y))
        with named("Y"):
            sparsely = getattr(self.regressor, "takes_sparse_targets", None) if chooses else None
            fitted = fit_outputs(basis, outputs, lazy=lazy, sparsely=sparsely)
        targets = fitted.targets
        if isinstance(targets, np.ndarray) and targets.shape[1] == 1:
            targets = targets[:, 0]  # as regressors want one output
        if getattr(self.regressor, "uses_residual", False):
            fit_params = {"residual": fitted.residual(), **fit_params}
        # inputs -> coordinates; and back to objects, which may choose the regressor's alpha
        regressor, rows = clone(self.regressor), inputs if lazy else inputs.load_for(self.regressor)
        if getattr(regressor, "task_matrix", None) is not None:
            relate_coordinates(regressor, basis)
        decoder = fitted.fitted(decoder)
        weights: Any = fit_params.get("sample_weight")
        scorer = self._scorer(fitted, decoder, inputs, weights, groups, candidates)
        if scorer is None:
            regressor.fit(rows, targets, **fit_params)
        else:
            regressor.fit_scored(rows, targets, scorer, **fit_params)
        if chooses:
            regressor, basis, decoder = fitted.shortened(regressor, decoder)
        # together, once all are fitted: a fit that fails changes nothing
        self.output_basis_, self.regressor_, self.decoder_ = basis, regressor, decoder
        return self

    def _scorer(
        self,
        fitted: FittedOutputs,
        decoder: Estimator,
        inputs: Source,
        sample_weight: Weights,
        groups: Labels,
        candidates: Candidates,
    ) -> Scorer | None:
        """Return what alpha, or an epoch, is chosen by; None where the regressor does by itself."""
        only_one = isinstance(getattr(self.regressor, "alpha", None), Real)  # needs no choice
        if only_one or not hasattr(self.regressor, "choice_splits"):
            return None
        weights = encoded_weights(sample_weight, inputs)
        Y = fitted.outputs.resident  # None where they are not in memory
        splits = self.regressor.choice_splits(len(inputs), Y, weights, groups)
        if not splits or (self.scoring == COORDINATES and groups is None):
            return None
        seed = getattr(self.regressor, "random_state", None)
        held = held_rows(splits, len(inputs), random_state=seed, weights=weights)
        if not can_be_scored(fitted, self.scoring, candidates):
            return Scorer(splits, held, squared_error(fitted.targets, held), COORDINATES)
        decoded = DecodedScore(fitted, decoder, self.scoring, splits, held, candidates)
        return Scorer(splits, held, decoded, decoded.name)

    @property
    def cv_results_(self) -> State:
        """The scores that alpha was chosen by."""
        results: State = self.regressor_.cv_results_
        return results

    def _opened(
        self, X: Inputs, Y: Objects | None, fit_params: State, basis: Estimator
    ) -> tuple[Any, Any, State]:
        """Return X, Y and the parameters of fit: those of Blocks, or the arguments."""
        sketches = [getattr(part, "sketch", None) for part in (basis, self.regressor)]
        seed = getattr(self.regressor, "random_state", None)
        passed = fit_params.get("sample_weight")
        X, Y, weights = unpacked(X, Y, passed, seed=seed, sketches=sketches)
        if Y is None:
            raise ValueError("Y must be given, one object a row of X. Got None.")
        return X, Y, fit_params if weights is passed else {**fit_params, "sample_weight": weights}

    def _fitted_inner(self) -> Any:
        return self.regressor_

    def _seen_outputs(self) -> Any:
        return self.output_basis_

    def _embedded(self, candidates: Candidates) -> Candidates:
        if is_lazy(candidates) or not hasattr(self.decoder_, "embed"):
            return candidates
        return None if candidates is None else self.embed(candidates)

    def predict_coordinates(self, X: Objects) -> np.ndarray:
        """Return the predicted coordinates f(x) in the output basis, or in that of the decoder.

        Parameters
        ----------
        X : what the regressor takes, n rows

        Returns
        -------
        F : ndarray of shape (n, p)
        """
        check_is_fitted(self)
        return predicted(self.regressor_, X)

    def predict(self, X: Objects, candidates: Candidates = None) -> Objects:
        F = self.predict_coordinates(X)
        objects: Objects = decode(self.decoder_, F, candidates)
        return objects

    def rank(self, X: Objects, candidates: Candidates = None, k: int = 10) -> Found:
        F = self.predict_coordinates(X)
        return rank(self.decoder_, F, candidates, k)

    def embed(self, candidates: Candidates, path: PathLike | None = None) -> EmbeddedPool:
        """Encode and embed candidates once, to give them to `predict` and `rank` many times.

        Parameters
        ----------
        candidates : objects, CandidateSets or list of lists
            Arrays may be on disk.
        path : path, optional
            A .npy file for the coordinates of more candidates than memory holds. It is searched
            block by block, and must stay as long as the pool is used.
        """
        check_is_fitted(self)
        embed: Callable[..., EmbeddedPool] = able(self.decoder_, "embed", by="embed").embed
        return embed(candidates, path)

    def truth_ranks(
        self, X: Objects, Y: Objects, candidates: Candidates = None, *, ties: str = "average"
    ) -> np.ndarray:
        F = self.predict_coordinates(X)
        decoder = able(self.decoder_, "truth_ranks", by="truth_ranks")
        ranks: np.ndarray = decoder.truth_ranks(F, Y, candidates, ties=ties)
        return ranks


def predicted(regressor: Estimator, X: Objects) -> Array:
    """Return the predictions of a regressor, shape (n, p); it may take sources or arrays."""
    if not getattr(regressor, "takes_sources", False):
        X = source(X).load_for(regressor)
    F: Array = numpy_of(regressor.predict(X))
    return F[:, None] if F.ndim == 1 else F


def _decoder(spec: DecoderLike, **params: object) -> DecoderLike:
    """Return a decoder with these parameters; one that is an object stays as it is."""
    params = {name: value for name, value in params.items() if value is not None}
    if not params or not isinstance(spec, str | None):
        return spec
    decoder: Decoder = as_decoder(spec)
    return decoder.set_params(**{name: params[name] for name in params if hasattr(decoder, name)})


def iokr(
    input_kernel: KernelLike = "gaussian",
    output_kernel: KernelLike = "gaussian",
    *,
    input_sketch: SketchLike = None,
    output_sketch: SketchLike = None,
    alpha: Alphas = 1e-3,
    loss: LossLike = "squared",
    scoring: Scoring = None,
    cv: CV = 5,
    fit_intercept: bool = False,
    task_matrix: np.ndarray | str | None = None,
    solver: str = "auto",
    decoder: DecoderLike = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    device: str | None = None,
    checkpoint: PathLike | None = None,
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
    task_matrix : array, "learned" or None, default None
        M of the kernel k M (2.20), see `KernelRidge`: of coordinates of the outputs, or, with a
        linear output kernel, of their columns. Only ridge regression learns one.
    decoder : decoder, str or None, default None
    random_state : None, int or Generator
        Seed of the inputs; that of the outputs is drawn from it.
    n_jobs : int, optional
        Threads of all parts but a decoder that is an object.
    device : str, optional
        "cuda" fits, embeds and searches on a GPU. None is where the data are.
    solver, verbose, checkpoint
        See `KernelRidge`.

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
    regressor: Regressor
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
    input_kernel: KernelLike = "gaussian",
    output_kernel: KernelLike = "gaussian",
    *,
    input_sketch: SketchLike = "subsample",
    output_sketch: SketchLike = "p_sparsified",
    alpha: Alphas = (1e-5, 1e-4, 1e-3, 1e-2),
    loss: LossLike = "squared",
    scoring: Scoring = None,
    cv: CV = 5,
    fit_intercept: bool = False,
    task_matrix: np.ndarray | str | None = None,
    solver: str = "auto",
    decoder: DecoderLike = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    device: str | None = None,
    checkpoint: PathLike | None = None,
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
    module: ModuleLike,
    output_kernel: KernelLike = "gaussian",
    *,
    output_sketch: SketchLike = "subsample",
    output_rank: int | None = None,
    loss: LossLike = "squared",
    training: Training | None = None,
    validation: float | ArrayLike = 0.0,
    patience: int | None = None,
    metric: Metric | None = None,
    scoring: Scoring = "coordinates",
    decoder: DecoderLike = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    device: str | None = None,
    checkpoint: PathLike | None = None,
) -> StructuredPredictor:
    """Deep sketched output kernel regression: a network into a sketched output basis (5.13).

    Needs PyTorch: `pip install "skout[deep]"`.

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
        "cuda" trains, embeds and searches on a GPU, but for output kernels that do not run there;
        "auto" is a GPU if there is one. None is where the data are.

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
