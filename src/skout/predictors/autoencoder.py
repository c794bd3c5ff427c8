"""An autoencoder of structured objects, whose first and last layers are a sketched basis (p. 117).

object --basis--> z in R^p --network--> few numbers --network--> R^p --decode--> object
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.validation import PartsByName, check_number, spawn_seed
from ..basis import KernelBasis
from ..decoding import as_decoder
from ..kernels import as_kernel
from ..sketches import as_sketch

__all__ = ["Autoencoder"]


class Autoencoder(TransformerMixin, PartsByName):
    """Describe objects by a few numbers, from which a network makes them again.

    The coordinates z(x) of a sketched kernel go through a network with a narrow layer, g(z), which
    is trained by the squared distance ||psi(x) - sum_j g_j e_j||^2 in the feature space: as in
    DSOKR, but with the object itself as the input. Objects come back through a decoder. With
    ``hidden=()`` it is kernel PCA. Needs PyTorch: `pip install skout[deep]`.

    Parameters
    ----------
    kernel : kernel, str or callable, default "gaussian"
    sketch : sketch, str or None, default "subsample"
    n_components : int, default 2
        Numbers that describe an object.
    hidden : sequence of int, default (128,)
        Widths of the hidden layers before the narrow one; after it they are reversed.
    training : Training, optional
        See `skout.deep.NeuralRegressor`.
    validation, patience, verbose, device
        See `skout.deep.NeuralRegressor`.
    decoder : decoder, str or None, default None
        None chooses among candidates, by default the training objects.
    random_state : None, int or Generator

    Attributes
    ----------
    basis_, regressor_, decoder_
        The fitted parts.

    Examples
    --------
    >>> from skout import Autoencoder
    >>> words = ["banana", "bananas", "anna", "stone", "stones", "tone"] * 5
    >>> model = Autoencoder("ngram", None, 2, random_state=0).fit(words)
    >>> model.transform(words).shape
    (30, 2)
    """

    _by_name: ClassVar[dict[str, Any]] = {
        "kernel": as_kernel,
        "sketch": as_sketch,
        "decoder": as_decoder,
    }

    def __init__(
        self,
        kernel: Any = "gaussian",
        sketch: Any = "subsample",
        n_components: int = 2,
        *,
        hidden: Any = (128,),
        training: Any = None,
        validation: Any = 0.0,
        patience: int | None = None,
        decoder: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        device: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.sketch = sketch
        self.n_components = n_components
        self.hidden = hidden
        self.training = training
        self.validation = validation
        self.patience = patience
        self.decoder = decoder
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Autoencoder:
        """Fit the basis, then the network, then the decoder.

        Parameters
        ----------
        X : objects that the kernel encodes, n of them
        y : ignored

        Returns
        -------
        self : Autoencoder
        """
        from ..deep import Bottleneck, NeuralRegressor  # PyTorch is imported here

        check_number(self.n_components, "n_components", low=1, integer=True)
        seed = spawn_seed(self.random_state)
        basis = KernelBasis(
            as_kernel(self.kernel), as_sketch(self.sketch), whiten="eigh", random_state=seed
        )
        Z = np.asarray(basis.fit_transform(X))
        network = functools.partial(Bottleneck, n_components=self.n_components, hidden=self.hidden)
        regressor = NeuralRegressor(
            network,
            training=self.training,
            validation=self.validation,
            patience=self.patience,
            random_state=self.random_state,
            verbose=self.verbose,
            device=self.device,
        ).fit(Z, Z)
        decoder = as_decoder(self.decoder).fit(basis, X, Z)
        self.basis_, self.regressor_, self.decoder_ = basis, regressor, decoder
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the numbers that describe objects.

        Parameters
        ----------
        X : objects, n of them

        Returns
        -------
        codes : ndarray of shape (n, n_components)
        """
        check_is_fitted(self)
        return self.regressor_.through("encoder", self.basis_.transform(X))

    def inverse_transform(self, codes: Any, candidates: Any = None) -> Any:
        """Return the objects that numbers describe.

        Parameters
        ----------
        codes : array of shape (n, n_components)
        candidates : objects, optional
            Default the distinct training objects.

        Returns
        -------
        objects : n of them
        """
        check_is_fitted(self)
        return self.decoder_.decode(self.regressor_.through("decoder", codes), candidates)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the squared norms in the feature space that comes back; 1 is all.

        Parameters
        ----------
        X : objects, n of them
        y : ignored
        """
        # 1 - sum ||psi(x) - h(x)||^2 / sum k(x, x), of which the basis does not see the residual
        check_is_fitted(self)
        Z, unseen = np.asarray(self.basis_.transform(X)), np.asarray(self.basis_.residual(X))
        lost = np.sum((Z - self.regressor_.predict(Z)) ** 2) + unseen.sum()
        return 1.0 - float(lost / (np.sum(Z**2) + unseen.sum()))
