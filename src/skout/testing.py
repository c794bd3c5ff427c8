"""Conformance checks for kernels, sketches and decoders, yours included.

The test suite runs them over `KERNELS`, `SKETCHES` and `DECODERS`: registering is being tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from ._arrays import float_dtype, n_rows, take
from .basis import KernelBasis
from .kernels import Kernel, as_kernel
from .sketches import Sketch, as_sketch

__all__ = ["check_decoder", "check_kernel", "check_sketch"]


def check_kernel(kernel: Any, objects: Any) -> None:
    """Check what the library relies on: symmetry, positive semi-definiteness, blocks, diagonal.

    Parameters
    ----------
    kernel : kernel, str or callable
    objects : objects that it encodes, at least four of them

    Examples
    --------
    >>> import numpy as np
    >>> from skout.testing import check_kernel
    >>> check_kernel("gaussian", np.eye(5))
    """
    kernel = as_kernel(kernel)
    params = clone(kernel).get_params()
    rows = kernel.encode(objects)
    resolved = kernel.resolve(rows, np.random.default_rng(0))
    K = resolved(objects)
    size = float(np.max(np.abs(K)))
    tol = 1e-4 if float_dtype(rows) == np.float32 else 1e-9

    assert K.shape == (n_rows(rows), n_rows(rows)), "K(A) must be square"
    assert np.isfinite(K).all(), "K must be finite"
    assert_allclose(K, K.T, atol=tol * size, err_msg="K must be symmetric")
    lowest = float(np.linalg.eigvalsh(K.astype(np.float64)).min())
    assert lowest >= -len(K) * tol * size, f"K must be positive semi-definite, found {lowest:g}"
    diag = resolved.diag(rows)
    assert_allclose(np.diagonal(K), diag, atol=tol * size, err_msg="diag")
    assert_allclose(resolved.paired(rows, rows), diag, atol=tol * size, err_msg="paired")
    if resolved.normalized:
        assert_allclose(diag, 1.0, err_msg="normalized promises k(y, y) = 1")
    _check_blocks(resolved, rows, K, tol * size)
    _check_idempotent(kernel, rows)
    assert repr(clone(kernel).get_params()) == repr(params), "parameters must not change"


def _check_blocks(kernel: Kernel, rows: Any, K: np.ndarray, atol: float) -> None:
    """Blocks of K, computed alone or into a buffer, agree with K."""
    some, others = slice(1, 3), slice(0, 4)
    block = kernel.against(take(rows, others))
    assert_allclose(block(take(rows, some)), K[some, others], atol=atol, err_msg="block")
    out = np.full((2, n_rows(take(rows, others))), 7.0, dtype=float_dtype(rows))
    assert block(take(rows, some), out) is out, "a block function must fill and return `out`"
    assert_allclose(out, K[some, others], atol=atol, err_msg="block into a buffer")
    assert_allclose(kernel(take(rows, some), take(rows, others)), K[some, others], atol=atol)


def _check_idempotent(kernel: Kernel, rows: Any) -> None:
    again = kernel.encode(rows)
    if sparse.issparse(rows):
        assert_array_equal(again.toarray(), rows.toarray(), err_msg="encode must be idempotent")
    else:
        assert_array_equal(again, rows, err_msg="encode must be idempotent")


def check_sketch(sketch: Any, n: int = 40, n_draws: int = 4000) -> None:
    """Check shapes, determinism and, for data-independent sketches, E[R'R] = I.

    Parameters
    ----------
    sketch : sketch or str
    n : int, default 40
        Rows to sketch.
    n_draws : int, default 4000
        Draws behind the estimate of E[R'R].

    Examples
    --------
    >>> from skout.sketches import SubSample
    >>> from skout.testing import check_sketch
    >>> check_sketch(SubSample(5))
    """
    sketch = as_sketch(sketch)
    if sketch is None:
        raise TypeError("check_sketch needs a sketch. Got None.")
    if sketch.needs_gram:
        _check_data_dependent(sketch, n)
        return
    rng = np.random.default_rng(0)
    mean, square = np.zeros((n, n)), np.zeros((n, n))
    for _ in range(n_draws):
        R = _check_draw(sketch, n, rng)
        second = R.T @ R
        mean += second / n_draws
        square += second**2 / n_draws
    # six standard errors of each entry; entries that are rarely seen get a little more
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / n_draws)
    off = np.abs(mean - np.eye(n)) > 6.0 * error + 6.0 / n_draws
    assert not off.any(), f"E[R'R] must be the identity; {off.sum()} entries of its mean are not"
    trace = np.trace(mean) / n
    assert abs(trace - 1.0) < 6.0 / np.sqrt(n_draws), f"E[tr R'R]/n must be 1, found {trace:g}"
    first = sketch.draw(n, np.random.default_rng(1)).toarray()
    second = sketch.draw(n, np.random.default_rng(1)).toarray()
    assert_array_equal(first, second, err_msg="the same rng must give the same sketch")


def _check_draw(sketch: Sketch, n: int, rng: np.random.Generator) -> np.ndarray:
    """Check one draw and return it as a dense matrix."""
    draw = sketch.draw(n, rng)
    assert draw.shape[1] == n
    assert np.all(np.diff(draw.indices) > 0), "indices must be sorted and distinct"
    assert draw.indices.min(initial=0) >= 0
    assert draw.indices.max(initial=0) < n
    if draw.weights is not None:
        assert draw.weights.shape == (draw.shape[0], len(draw.indices))
    R = draw.toarray()
    assert R.shape == draw.shape
    untouched = np.setdiff1d(np.arange(n), draw.indices)
    assert not R[:, untouched].any(), "R may only touch the rows in `indices`"
    return R


def _check_data_dependent(sketch: Sketch, n: int) -> None:
    """Through a basis: distinct landmarks, and the same seed gives the same ones."""
    X = np.random.default_rng(0).standard_normal((n, 3))
    first = KernelBasis("gaussian", sketch, random_state=1).fit(X)
    second = KernelBasis("gaussian", sketch, random_state=1).fit(X)
    assert_array_equal(first.landmarks_, second.landmarks_)
    assert len(np.unique(first.landmarks_, axis=0)) == len(first.landmarks_)


def check_decoder(decoder: Any, basis: KernelBasis, Y: Any, F: np.ndarray) -> None:
    """Check a decoder against brute force over the distinct training outputs.

    Parameters
    ----------
    decoder : decoder
    basis : KernelBasis
        Fitted on the outputs.
    Y : objects
    F : ndarray of shape (n, p)
        Coordinates to decode.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import CandidateDecoder
    >>> from skout.testing import check_decoder
    >>> Y = np.eye(4)
    >>> check_decoder(CandidateDecoder(), KernelBasis("linear").fit(Y), Y, np.ones((2, 4)))
    """
    decoder = clone(decoder).fit(basis, Y)
    found = basis.kernel_.encode(decoder.decode(F))
    assert n_rows(found) == len(F), "one object a row"
    Z, norms = basis.transform(Y), basis.kernel_.diag(basis.kernel_.encode(Y))
    best = (2.0 * F @ Z.T - norms).max(axis=1)
    score = 2.0 * np.einsum("ij,ij->i", F, basis.transform(found)) - basis.kernel_.diag(found)
    assert_allclose(score, best, rtol=1e-8, atol=1e-8 * np.abs(norms).max())
