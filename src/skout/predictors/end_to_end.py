"""End-to-end DSOKR: the network and the embedding of the outputs, trained together."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone

from .._numerics.estimators import frames_out
from .._numerics.typing import Candidates, Estimator, Inputs, Labels, Objects
from .._numerics.validation import check_rng
from ..decoding import as_decoder
from ..decoding.base import able, plain_outputs
from ..predictor import StructuredPredictor
from ..rows import Source, check_pair
from .joint import OverBasis

if TYPE_CHECKING:  # PyTorch is optional
    from ..deep import NeuralRegressor, Training


class MappedBasis(OverBasis):
    """A basis followed by a trained map of its coordinates, g(z) = z + C relu(A z + b) + c.

    The norm of an output stays k(y, y). `weights` are A, b, C and c.
    """

    def __init__(self, outputs: Estimator, weights: list[np.ndarray]) -> None:
        self.outputs = outputs
        self.weights = weights

    rank_: Any = property(attrgetter("outputs.rank_"))

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> np.ndarray:
        out = np.empty((len(rows), self.rank_)) if out is None else out
        self.outputs.coordinates(rows, out=out)
        A, b, C, c = self.weights
        out += np.maximum(out @ A.T + b, 0.0) @ C.T + c
        return out


@frames_out
class EndToEnd(StructuredPredictor):
    """DSOKR whose network and output embedding are then trained together by a listwise loss.

    DSOKR predicts coordinates z(y) that were fixed before, by the squared loss. Candidates are
    then ranked, which is another task. Here a DSOKR is fitted first; then its network f and a map
    of the outputs, g(z) = z + C relu(A z + b) + c, go on together to minimize

        -log softmax of logit_scale (<f(x), g(z(y))> - k(y, y) / 2)

    of the right y among the outputs of a batch. C and c are 0 at first: the ranking then is that
    of DSOKR. Needs PyTorch: `pip install "skout[deep]"`.

    With `Training(max_epochs=0)` for its first training this is a contrastive model, which can
    teach an encoder to read: pairs of which there are many (names, say) train both sides, and
    another DSOKR goes on with the encoder of `regressor_.module_` and with what
    `output_basis_.transform` makes of its outputs.

    Parameters
    ----------
    model : StructuredPredictor
        Made by `dsokr(...)`; its decoder must rank candidates. Its `validation` and `patience`
        also choose the best epoch of the second training, by the listwise loss.
    hidden : int, default 256
        Number of hidden units of g.
    logit_scale : float, default 20.0
        Factor of the scores in the softmax, an inverse temperature, at the start; it is trained.
    negatives : int, default 0
        Number of further training outputs, drawn at random for each batch, that are candidates of
        the softmax. They cost little beside a large network.
    training : Training, optional
        Settings of the second training; default those of the model. Batches should be large: their
        outputs are the candidates of the softmax.

    Attributes
    ----------
    regressor_, output_basis_, decoder_
        The fitted parts: the network after both trainings, and z with the map.
    model_ : StructuredPredictor
        The DSOKR that the second training started from.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import EndToEnd, dsokr
    >>> from skout.deep import MLP, Training
    >>> X = np.arange(20.0)[:, None] / 20
    >>> Y = np.where(X < 0.5, [[1, 0, 1]], [[0, 1, 1]])
    >>> model = EndToEnd(dsokr(MLP, "tanimoto", training=Training(20), random_state=0))
    >>> model.fit(X, Y).predict([[0.1]])
    array([[1, 0, 1]])
    """

    _inner = "model"
    _by_name: ClassVar[dict[str, Any]] = {}

    decoder_: Any
    output_basis_: MappedBasis
    regressor_: NeuralRegressor

    def __init__(
        self,
        model: Estimator,
        *,
        hidden: int = 256,
        logit_scale: float = 20.0,
        negatives: int = 0,
        training: Training | None = None,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.logit_scale = logit_scale
        self.negatives = negatives
        self.training = training

    def fit(
        self,
        X: Inputs,
        Y: Objects | None = None,
        groups: Labels = None,
        candidates: Candidates = None,
        **fit_params: object,
    ) -> EndToEnd:
        """Fit DSOKR, then train its network and the map of the outputs together.

        Parameters
        ----------
        X : what the module takes, n rows
        Y : objects, n of them
        groups, candidates, **fit_params
            As in `StructuredPredictor.fit`, for DSOKR; of fit_params a sample_weight also counts
            in the second training.

        Returns
        -------
        self : EndToEnd
        """
        from ..deep.regressor import train_together  # PyTorch is imported here, not with skout

        model = self._checked()
        model.fit(X, Y, groups=groups, candidates=candidates, **fit_params)
        rows: Any = X
        inputs, outputs = check_pair(rows, plain_outputs(Y))
        objects, basis = outputs.load(), model.output_basis_
        regressor, weights = train_together(
            model.regressor_,
            inputs.load_for(model.regressor_),
            basis.transform(objects),
            basis.residual(objects),
            hidden=self.hidden,
            logit_scale=self.logit_scale,
            negatives=self.negatives,
            training=self.training,
            groups=groups,
            sample_weight=fit_params.get("sample_weight"),
        )
        mapped = MappedBasis(basis, weights)
        decoder = as_decoder(self.model.decoder).fit(mapped, objects)
        # together, once all are fitted: a fit that fails changes nothing
        self.regressor_, self.output_basis_, self.decoder_ = regressor, mapped, decoder
        self.model_ = model
        return self

    def _checked(self) -> Any:
        """Return an unfitted model with a fixed seed: both trainings must hold out equal rows."""
        network: Any = getattr(self.model, "regressor", None)
        if not hasattr(network, "module"):
            raise TypeError(
                f"model must be a network such as dsokr(...) makes. Got {self.model!r} instead."
            )
        able(as_decoder(self.model.decoder), "embed", "queries", by="EndToEnd")
        seed = network.random_state
        if not isinstance(seed, int):
            seed = int(check_rng(seed).integers(2**31))
        return clone(self.model).set_params(regressor__random_state=seed)

    #: its clone can be fitted on other rows
    regressor: Any = property(attrgetter("regressor_"))

    def _seen_outputs(self) -> Any:
        return self.output_basis_.outputs
