"""Both ways between spectra and molecules, as small as can be: kernels, landmarks, matrices."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skout import TwoWay
from skout.decoding import CandidateSets
from skout.kernels import Kernel
from skout.typing import KernelRows


class KernelMap(BaseEstimator):
    """From objects to vectors: k(objects, landmarks) @ matrix.

    Parameters
    ----------
    kernel : Kernel
    landmarks : rows, m of them
    matrix : ndarray of float16, shape (m, d)
    """

    def __init__(self, kernel: Kernel, landmarks: KernelRows, matrix: np.ndarray) -> None:
        self.kernel = kernel
        self.landmarks = landmarks
        self.matrix = matrix

    def __call__(self, objects: Any) -> np.ndarray:
        block: np.ndarray = self.kernel(objects, self.landmarks) @ self.matrix
        return block


class BothWays(BaseEstimator):
    """What a fitted `TwoWay` needs to score candidates, in half precision.

    Parameters
    ----------
    spectra : KernelMap
        From spectra x to [f(x), z_x(x)]: predicted coordinates of molecules, and those of x.
    backward, forward : KernelMap
        From molecules y to their coordinates z(y), and to predicted ones of spectra, g(y).
    """

    def __init__(self, spectra: KernelMap, backward: KernelMap, forward: KernelMap) -> None:
        self.spectra = spectra
        self.backward = backward
        self.forward = forward

    @classmethod
    def of(cls, model: TwoWay) -> BothWays:
        """Return both ways of a fitted model that has the same landmarks of spectra in both."""
        back, inputs = model.regressor_.regressor, model.regressor_.inputs
        outputs, forward = model.output_basis_.outputs, model.output_basis_.regressor
        whiten = inputs.components_.T
        to_molecules = back.basis_.components_.T @ back.coef_
        predicted = forward.basis_.components_.T @ forward.coef_
        return cls(
            _half(inputs.kernel_, inputs.landmarks_, np.hstack([to_molecules, whiten])),
            _half(outputs.kernel_, outputs.landmarks_, outputs.components_.T),
            _half(forward.kernel_, forward.landmarks_, predicted),
        )

    def columns(self, F: np.ndarray, sets: CandidateSets) -> np.ndarray:
        """Return the scores of candidates of spectra with vectors F, shape (4, candidates).

        Both together, backward 2 <f, z> - 1, forward 2 <z_x, g> - |g|^2 and by cosine.
        """
        p = self.backward.matrix.shape[1]
        z, g = self.backward(sets.pool), self.forward(sets.pool)
        squares = np.einsum("ij,ij->i", g, g)
        back, products = np.empty((2, len(sets.indices)))
        for i, (a, b) in enumerate(pairwise(sets.indptr)):
            rows = sets.indices[a:b]
            back[a:b] = 2.0 * (z[rows] @ F[i, :p]) - 1.0
            products[a:b] = 2.0 * (g[rows] @ F[i, p:])
        lengths = np.linalg.norm(F[:, p:], axis=1)[sets.query_of]
        both = np.maximum(lengths * np.sqrt(squares[sets.indices]), np.finfo(np.float64).tiny)
        cosine = products / both - 1.0
        return np.stack([back + cosine, back, products - squares[sets.indices], cosine])


def _half(kernel: Kernel, landmarks: KernelRows, matrix: np.ndarray) -> KernelMap:
    # products are computed in double precision; scores of candidates of a spectrum differ by 0.3 %
    # of their spread from those of matrices in single precision, which take twice the bytes
    return KernelMap(kernel, landmarks, matrix.astype(np.float16))
