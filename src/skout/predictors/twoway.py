"""`TwoWay`: candidates ranked by a model from inputs to outputs and one from outputs to inputs."""

from __future__ import annotations

from numbers import Real
from operator import attrgetter
from typing import Any, ClassVar

from sklearn.base import clone
from sklearn.utils.metadata_routing import _routing_enabled, process_routing

from .._numerics.arrays import n_rows
from .._numerics.estimators import frames_out
from .._numerics.typing import (
    Candidates,
    Estimator,
    Inputs,
    Labels,
    Objects,
    RandomState,
    Scoring,
)
from .._numerics.validation import check_choice, spawn_seed
from ..decoding import as_decoder
from ..decoding.base import able, plain_outputs
from ..kernels import as_kernel
from ..predictor import StructuredPredictor, as_basis
from ..rows import check_pair, source
from ..sketches import as_sketch
from .joint import JointBasis, JointRegressor
from .out_of_fold import OutOfFold
from .thresholds import checked_labels
from .two_way_weight import NORMALIZATIONS, Directions, best_option, choose_weight


@frames_out
class TwoWay(StructuredPredictor):
    """Score candidates by a backward and by a forward model (IOKRreverse), in one search.

    The backward model predicts the coordinates f(x) of the output; the forward model predicts from
    an output c the coordinates g(c) of the *input*, which are compared with those of x. With
    the coordinates z of the output kernel and z_x of the input kernel, a candidate scores

        2 <f(x), z(c)> - k(c, c) + weight (2 <g(c), z_x(x)> - ||g(c)||^2)

    or, by cosines, weight (2 cos(g(c), z_x(x)) - 1) in the second part. Both are inner products of
    concatenated vectors, so that every search of candidates works: pools on disk, indices,
    clusters, GPUs, hubness correction, prediction sets. It is the fusion of IOKR and IOKRreverse of
    Brouard et al. (2019) with sketches, where a candidate takes two short vectors, not n kernel
    values.

    Parameters
    ----------
    backward : StructuredPredictor
        From inputs to outputs, for instance `sisokr(...)`; its decoder must rank candidates.
    forward : StructuredPredictor, optional
        From outputs to inputs: its regressor takes outputs, as the output kernel of `backward`
        encodes them, and its output basis takes inputs; a decoder is not used. None is the
        backward model reversed: its regressor with its kernels exchanged, both sides sketched.
    weight : "cv" or float, default "cv"
        Weight of the forward model: 0 is the backward model alone, infinity the forward one. "cv"
        chooses it in cross-validation by the metric, 0 and infinity among others; one of these
        where the gain of both together is within a standard error over the folds.
    normalization : "distance", "cosine" or None, default None
        How forward scores compare g(c) and z_x(x). None chooses it with the weight, and is
        "distance" where the weight is a number.
    scoring : None, str or callable, default None
        What "cv" maximizes, as in `score`: with a set of candidates for each row the mean
        reciprocal rank of the truth, else the metric of the kind of outputs.
    cv : int, default 5
        Number of folds.
    random_state : None, int or Generator
        Seed of the folds.

    Attributes
    ----------
    weight_ : float
        The weight in use.
    normalization_ : str
        The normalization in use.
    weight_results_ : dict of arrays
        "weight", "normalization", "score" and "fold_score" of each option, if weight="cv".
    regressor_, output_basis_, decoder_
        The fitted parts: both directions in one vector.

    References
    ----------
    C. Brouard, A. Bassé, F. d'Alché-Buc, J. Rousu. Improved small molecule identification through
    learning combinations of kernel regression models. Metabolites, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skout import TwoWay, sisokr
    >>> images = load_digits(n_class=5).data / 16.0
    >>> upper, lower = images[:, :32], images[:, 32:]
    >>> model = TwoWay(sisokr("gaussian", "gaussian", random_state=0), cv=2, random_state=0)
    >>> model = model.fit(upper[:500], lower[:500])
    >>> model.predict(upper[500:]).shape
    (401, 32)
    """

    _inner = "backward"
    _by_name: ClassVar[dict[str, Any]] = {}

    decoder_: Any
    output_basis_: JointBasis
    regressor_: JointRegressor
    normalization_: str
    weight_: float

    def __init__(
        self,
        backward: Estimator,
        forward: Estimator | None = None,
        weight: float | str = "cv",
        *,
        normalization: str | None = None,
        scoring: Scoring = None,
        cv: int = 5,
        random_state: RandomState = None,
    ) -> None:
        self.backward = backward
        self.forward = forward
        self.weight = weight
        self.normalization = normalization
        self.scoring = scoring
        self.cv = cv
        self.random_state = random_state

    def fit(
        self,
        X: Inputs,
        Y: Objects | None = None,
        groups: Labels = None,
        candidates: Candidates = None,
        **fit_params: object,
    ) -> TwoWay:
        """Fit both models, after the weight is chosen on held-out rows.

        Parameters
        ----------
        X : what the backward model takes, n rows, or Blocks
            A weight can be chosen where rows can be taken by number: not from Blocks.
        Y : objects, n of them
            None if X are Blocks.
        groups : sequence of n labels, optional
            Rows of one label stay in one fold, such as the spectra of a molecule; also where the
            regressors choose their alpha.
        candidates : objects, CandidateSets or list of lists, optional
            Candidates of held-out rows where the weight is chosen, as they will be at prediction:
            sets have one for each row of X. Default the distinct outputs of the
            rows that the fold was fitted on; of all rows if the metric is a rank.
        **fit_params
            Passed to both models' fit, e.g. sample_weight; with scikit-learn's metadata routing,
            those that the backward model requests.
        """
        if _routing_enabled():
            fit_params = process_routing(self, "fit", **fit_params).backward.fit
        self._check()
        basis = as_basis(self.backward.output_basis)
        inputs, outputs, params = self.backward._opened(X, Y, fit_params, basis)
        check_pair(inputs, plain_outputs(outputs))
        forward = reversed_model(self.backward) if self.forward is None else self.forward
        labels = checked_labels(groups, "groups", n_rows(inputs))
        directions = Directions(self.backward, forward, labels, params)
        first = slice(0, 2)  # what is wrong is found before long work
        directions.check(source(inputs).take(first), source(plain_outputs(outputs)).take(first))
        weight, normalization, results = self.weight, self.normalization or "distance", None
        if weight == "cv":
            name = self.normalization
            results = choose_weight(
                directions,
                OutOfFold(self.backward, inputs, outputs, groups, candidates),
                normalizations=NORMALIZATIONS if name is None else (name,),
                scoring=self.scoring,
                cv=self.cv,
                random_state=self.random_state,
            )
            best = best_option(results)
            weight, normalization = (results[name][best] for name in ("weight", "normalization"))
        parts = directions.fitted(inputs, outputs, float(weight), normalization == "cosine")
        # together, once all are fitted: a fit that fails changes nothing
        self.regressor_, self.output_basis_, self.decoder_ = parts
        self.weight_, self.normalization_ = float(weight), str(normalization)
        self.__dict__.pop("weight_results_", None)
        if results is not None:
            self.weight_results_ = results
        return self

    def _check(self) -> None:
        """Raise where a parameter is wrong."""
        weight = self.weight
        if weight != "cv" and not (isinstance(weight, Real) and float(weight) >= 0.0):
            raise ValueError(f'weight must be "cv" or a number >= 0. Got {weight!r} instead.')
        if self.normalization is not None:
            check_choice(self.normalization, "normalization", NORMALIZATIONS)
        for name in ("backward", "forward"):
            model = getattr(self, name)
            if name == "forward" and model is None:
                continue
            if not (hasattr(model, "regressor") and hasattr(model, "output_basis")):
                raise TypeError(
                    f"{name} must be a StructuredPredictor, such as sisokr(...) makes. Got "
                    f"{type(model).__name__} instead."
                )
        able(as_decoder(self.backward.decoder), "embed", "queries", "without_pool", by="TwoWay")

    #: its clone can be fitted on other rows
    regressor: Any = property(attrgetter("regressor_"))

    def _seen_outputs(self) -> Any:
        return self.output_basis_.outputs


def reversed_model(model: Estimator) -> StructuredPredictor:
    """Return the model from outputs to inputs, with the kernels exchanged and both sketched."""
    regressor, basis = clone(model.regressor), as_basis(model.output_basis)
    if not (hasattr(regressor, "kernel") and hasattr(basis, "kernel")):
        raise TypeError(
            f"forward=None reverses the backward model, and {type(regressor).__name__} has no "
            "kernel: give a forward model, for instance sisokr(output_kernel, input_kernel)."
        )
    seed = getattr(regressor, "random_state", None)
    inputs = clone(basis).set_params(
        kernel=as_kernel(regressor.kernel),
        sketch=as_sketch(getattr(regressor, "sketch", None) or "subsample"),
        random_state=spawn_seed(seed),
    )
    regressor.set_params(kernel=as_kernel(basis.kernel), sketch=basis.sketch or "subsample")
    if hasattr(regressor, "checkpoint"):
        regressor.set_params(checkpoint=None)
    return StructuredPredictor(regressor, inputs)
