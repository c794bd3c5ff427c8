"""Conformance checks for kernels, sketches, losses, decoders and kinds of outputs, yours included.

The test suite runs them over `KERNELS`, `SKETCHES`, `LOSSES`, `DECODERS` and `KINDS`: registering
is being tested.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from ._numerics.arrays import float_dtype, is_tensor, n_rows, numpy_of, take
from ._numerics.linalg import symmetric_eigenvalues
from ._numerics.objects import Rows as ObjectRows
from ._numerics.objects import to_device
from ._numerics.typing import Objects, RandomState, Rows
from ._numerics.validation import check_rng
from .basis import KernelBasis
from .decoding import Decoder
from .kernels import Kernel, as_kernel
from .kernels.base import KernelLike
from .kinds import Kind
from .kinds.base import Cells
from .losses import Loss, LossLike, MarginLoss, as_loss
from .sketches import Sketch, SketchLike, as_sketch

__all__ = ["check_decoder", "check_kernel", "check_kind", "check_loss", "check_sketch"]

# Points at which a loss is checked, the step of difference quotients, and the distance from a kink
# below which points are left out. Conventions.
_SAMPLES = 200
_NUDGE = 1e-5
_NEAR = 1e-3


def check_kernel(kernel: KernelLike, objects: Objects) -> None:
    """Check what the library relies on: symmetry, positive semi-definiteness, blocks, diagonal.

    Parameters
    ----------
    kernel : kernel, str or callable
        The kernel to check.
    objects : objects that it encodes, at least four of them
        All are compared with each other.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.testing import check_kernel
    >>> check_kernel("gaussian", np.eye(5))
    """
    kernel = as_kernel(kernel)
    params = clone(kernel).get_params()
    rows = kernel.encode(objects)
    _check_rows(kernel, rows)
    resolved = kernel.resolve(rows, np.random.default_rng(0))
    K = resolved(objects)
    size = float(np.max(np.abs(K)))
    tol = 1e-4 if float_dtype(rows) == np.float32 else 1e-9

    assert K.shape == (n_rows(rows), n_rows(rows)), "K(A) must be square"
    assert np.isfinite(K).all(), "K must be finite"
    assert_allclose(K, K.T, atol=tol * size, err_msg="K must be symmetric")
    lowest = float(symmetric_eigenvalues(K.astype(np.float64))[-1])
    assert lowest >= -len(K) * tol * size, f"K must be positive semi-definite, found {lowest:g}"
    diag = resolved.diag(rows)
    assert_allclose(np.diagonal(K), diag, atol=tol * size, err_msg="diag")
    assert_allclose(resolved.paired(rows, rows), diag, atol=tol * size, err_msg="paired")
    if resolved.normalized:
        assert_allclose(diag, 1.0, err_msg="normalized promises k(y, y) = 1")
    _check_blocks(resolved, rows, K, tol * size)
    _check_idempotent(kernel, rows)
    if resolved.runs_on_device and importlib.util.find_spec("torch") is not None:
        _check_tensors(resolved, rows, tol * size)
    assert repr(clone(kernel).get_params()) == repr(params), "parameters must not change"


def _check_rows(kernel: Kernel, rows: Rows) -> None:
    """Check that encoded rows can be indexed, and are a matrix where the kernel takes vectors."""
    assert hasattr(rows, "ndim"), (
        f"{type(kernel).__name__}.encode returned {type(rows).__name__}, which is no form of "
        "rows: return a matrix, an array of objects (skout.kernels.as_objects) or Rows"
    )
    kernel._check_columns(rows, rows)


def _check_blocks(kernel: Kernel, rows: Rows, K: np.ndarray, atol: float) -> None:
    """Check that blocks of K, computed alone or into a buffer, agree with K."""
    rows_of_A, others = slice(1, 3), slice(0, 4)
    block = kernel.against(take(rows, others))
    assert_allclose(block(take(rows, rows_of_A)), K[rows_of_A, others], atol=atol, err_msg="block")
    out = np.full((2, n_rows(take(rows, others))), 7.0, dtype=float_dtype(rows))
    K_block = block(take(rows, rows_of_A), out)  # `out` itself, or a new array
    assert_allclose(K_block, K[rows_of_A, others], atol=atol, err_msg="block into a buffer")
    assert_allclose(
        kernel(take(rows, rows_of_A), take(rows, others)), K[rows_of_A, others], atol=atol
    )


def _check_tensors(kernel: Kernel, rows: Rows, atol: float) -> None:
    """Check that blocks and diagonals of rows in tensors agree with those of arrays."""
    tensors, first = to_device(rows, "cpu"), slice(1, 3)
    K, diag = kernel.against(tensors)(take(tensors, first)), kernel.diag(tensors)
    for values in (K, diag):
        assert is_tensor(values), "a kernel that runs on devices makes tensors of tensors"
    expected = kernel.against(rows)(take(rows, first))
    assert_allclose(numpy_of(K), expected, atol=atol, err_msg="block of tensors")
    assert_allclose(numpy_of(diag), kernel.diag(rows), atol=atol, err_msg="diag of tensors")


def _check_idempotent(kernel: Kernel, rows: Any) -> None:
    again = kernel.encode(rows)
    if isinstance(rows, ObjectRows):
        assert again.keys() == rows.keys(), "encode must be idempotent"
    elif sparse.issparse(rows):
        assert_array_equal(again.toarray(), rows.toarray(), err_msg="encode must be idempotent")
    else:
        assert_array_equal(again, rows, err_msg="encode must be idempotent")


def check_sketch(sketch: SketchLike, n: int = 40, n_draws: int = 4000) -> None:
    """Check shapes, determinism and, for data-independent sketches, E[R'R] = I.

    Parameters
    ----------
    sketch : sketch or str
        The sketch to check.
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
    """Check, by a basis, that landmarks are distinct, and equal for the same seed."""
    X = np.random.default_rng(0).standard_normal((n, 3))
    first, second = (
        np.asarray(KernelBasis("gaussian", sketch, random_state=1).fit(X).landmarks_)
        for _ in range(2)
    )
    assert_array_equal(first, second)
    assert len(np.unique(first, axis=0)) == len(first)


def check_loss(loss: LossLike, d: int = 1, random_state: RandomState = 0) -> None:
    """Check that value, derivatives and conjugate of a loss are those of one convex function.

    Parameters
    ----------
    loss : Loss or str
        The loss to check.
    d : int, default 1
        Number of outputs.
    random_state : None, int or Generator, default 0
        Seed of the points at which it is checked.

    Examples
    --------
    >>> from skout.losses import Huber
    >>> from skout.testing import check_loss
    >>> check_loss(Huber(0.5), d=2)
    """
    rng = check_rng(random_state)
    loss = as_loss(loss)
    loss.check_outputs(d)
    params = repr(loss.get_params())
    Y = rng.standard_normal((_SAMPLES, d))
    if isinstance(loss, MarginLoss):
        Y = np.where(Y < 0.0, -1.0, 1.0)
    F = Y + rng.choice([0.1, 1.0, 10.0], (_SAMPLES, 1)) * rng.standard_normal((_SAMPLES, d))
    for array in (F, Y):
        array.flags.writeable = False  # so that nothing writes into its arguments

    _check_shapes(loss, F, Y)
    _check_convex(loss, F, Y, rng)
    _check_gradient(loss, F, Y)
    _check_curvature(loss, F, Y, rng)
    _check_along(loss, F, Y, rng)
    _check_conjugate(loss, F, Y, rng)
    _check_clip(loss, Y, rng)
    _check_lipschitz(loss, F, Y, rng)
    _check_ramps(loss, F, Y)
    assert repr(loss.get_params()) == params, "parameters must not change"


def _check_shapes(loss: Loss, F: np.ndarray, Y: np.ndarray) -> None:
    (n, d), gradient = F.shape, loss.gradient(F, Y)
    assert loss.variable(F, Y).shape in {(n,), (n, d)}, "variable"
    assert loss.value(F, Y).shape == loss.conjugate(F, Y).shape == (n,), "one value a row"
    assert np.all(loss.value(F, Y) >= 0.0), "a loss must not be negative"
    assert gradient.shape == (n, d), "the gradient has the shape of F"
    assert np.isfinite(gradient).all(), "the gradient must be finite"


def _above_tangent(
    loss: Loss, F: np.ndarray, G: np.ndarray, Y: np.ndarray, rng: np.random.Generator, name: str
) -> None:
    """Check that G are subgradients at F: loss(q) >= loss(f) + <g, q - f>, near and far."""
    for size in (0.0, 1e-3, 1.0, 100.0):
        Q = F + size * rng.standard_normal(F.shape)
        slack = loss.value(Q, Y) - loss.value(F, Y) - np.sum(G * (Q - F), axis=1)
        allowed = 1e-9 * (1.0 + loss.value(Q, Y) + np.sum(np.abs(G) * (1.0 + np.abs(F)), axis=1))
        assert np.all(slack >= -allowed), f"{name}: {slack.min():g} below a tangent"


def _check_convex(loss: Loss, F: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> None:
    """Check that chords lie above, and tangents below, also at kinks, F = Y and F = 0."""
    Q, t = F + 3.0 * rng.standard_normal(F.shape), rng.uniform(size=len(F))
    chord = t * loss.value(F, Y) + (1.0 - t) * loss.value(Q, Y)
    between = loss.value(t[:, None] * F + (1.0 - t)[:, None] * Q, Y)
    assert np.all(between <= chord * (1.0 + 1e-9) + 1e-12), "the loss must be convex"
    at_kinks = [_moved_to(loss, ramp.kink, F, Y) for ramp in loss.ramps]
    for point in (F, Y.copy(), np.zeros_like(F), *at_kinks):
        _above_tangent(loss, point, loss.gradient(point, Y), Y, rng, "gradient")


def _moved_to(loss: Loss, s: float, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Move F along the gradient of s(F, Y), which is a straight line, to a given value of s."""
    now = loss.variable(F, Y)
    moved: np.ndarray = F + _columns(s - now) * loss.lift(np.ones_like(now), F, Y)
    return moved


def _columns(s: np.ndarray) -> np.ndarray:
    return s if s.ndim == 2 else s[:, None]


def _smooth_rows(loss: Loss, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the rows that are away from every kink."""
    s = _columns(loss.variable(F, Y))
    far = np.ones(len(F), dtype=bool)
    for ramp in loss.ramps:
        far &= np.all(np.abs(s - ramp.kink) > _NEAR, axis=1)
    assert 2 * np.sum(far) > len(F), "most random points must be away from kinks"
    return far


def _quotients(
    function: Callable[[np.ndarray], np.ndarray], F: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each output the backward and the forward difference quotient."""
    middle = function(F)
    for j in range(F.shape[1]):
        nudge = np.zeros_like(F)
        nudge[:, j] = _NUDGE
        yield (middle - function(F - nudge)) / _NUDGE, (function(F + nudge) - middle) / _NUDGE


def _check_gradient(loss: Loss, F: np.ndarray, Y: np.ndarray) -> None:
    far, gradient = _smooth_rows(loss, F, Y), loss.gradient(F, Y)
    for j, (back, ahead) in enumerate(_quotients(lambda Q: loss.value(Q, Y), F)):
        quotient = 0.5 * (back + ahead)
        assert_allclose(
            gradient[far, j], quotient[far], rtol=1e-4, atol=1e-4, err_msg="gradient of value"
        )


def _check_curvature(loss: Loss, F: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> None:
    """Check diag(diagonal) + weight u u' against quotients of the gradient, where these agree."""
    if not loss.smooth:
        return
    (n, d), curvature = F.shape, loss.curvature(F, Y)
    assert curvature.diagonal.shape == (n, d), "one diagonal a row"
    assert (curvature.weight is None) == (curvature.u is None), "weight and u go together"
    H = np.einsum("ij,jk->ijk", curvature.diagonal, np.eye(d))
    if curvature.weight is not None and curvature.u is not None:
        H += np.einsum("i,ij,ik->ijk", curvature.weight, curvature.u, curvature.u)
    steady = np.ones(n, dtype=bool)
    truth = np.empty((n, d, d))
    for k, (back, ahead) in enumerate(_quotients(lambda Q: loss.gradient(Q, Y), F)):
        steady &= np.all(np.abs(ahead - back) < 1e-3, axis=1)  # else the curvature jumps
        truth[:, :, k] = 0.5 * (back + ahead)
    assert 2 * np.sum(steady) > n, "the gradient must have a derivative at most points"
    assert_allclose(H[steady], truth[steady], rtol=1e-3, atol=1e-4, err_msg="curvature")
    V = rng.standard_normal(F.shape)
    assert_allclose(curvature @ V, np.einsum("ijk,ik->ij", H, V), atol=1e-9, err_msg="curvature")


def _check_along(loss: Loss, F: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> None:
    """Check the change of s to first order, and its adjoint: <lift(g), dF> = g along(dF)."""
    dF = rng.standard_normal(F.shape)
    s = loss.variable(F, Y)
    quotient = (loss.variable(F + _NUDGE * dF, Y) - loss.variable(F - _NUDGE * dF, Y)) / 2 / _NUDGE
    away = (np.abs(s) > 0.1) | (s.ndim == 2)  # a norm bends near 0
    along = loss.along(dF, F, Y)
    assert_allclose(along[away], quotient[away], rtol=1e-4, atol=1e-4, err_msg="along")
    g = rng.standard_normal(s.shape)
    lifted = np.sum(loss.lift(g, F, Y) * dF, axis=1)
    assert_allclose(lifted, _columns(g * along).sum(axis=1), atol=1e-9, err_msg="lift")


def _check_conjugate(loss: Loss, F: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> None:
    """Check Fenchel-Young: loss(f) + loss*(g) >= <f, g>, and equal at g = loss'(f)."""
    far, gradient = _smooth_rows(loss, F, Y), loss.gradient(F, Y)
    size = 1.0 + loss.value(F, Y) + np.sum(np.abs(gradient * F), axis=1)
    total = loss.value(F, Y) + loss.conjugate(gradient, Y) - np.sum(F * gradient, axis=1)
    assert np.all(np.abs(total[far]) <= 1e-9 * size[far]), "value + conjugate = <f, gradient>"
    for spread in (0.1, 1.0, 10.0):
        G = spread * rng.standard_normal(F.shape)
        inner = loss.clip(G, Y)
        conjugate = loss.conjugate(inner, Y)
        assert np.isfinite(conjugate).all(), "the conjugate must be finite where clip leads"
        slack = loss.value(F, Y) + conjugate - np.sum(F * inner, axis=1)
        assert np.all(slack >= -1e-9 * (1.0 + np.abs(conjugate))), "value + conjugate >= <f, g>"
        moved = np.any(np.abs(G - inner) > 1e-6 * (1.0 + np.abs(G)), axis=1)
        outside = loss.conjugate(G, Y)
        assert np.isinf(outside[moved]).all(), "the conjugate must be inf outside its domain"
        assert np.isfinite(outside[~moved]).all(), "clip must not move what is in the domain"
    if np.isfinite(loss.lipschitz):
        beyond = np.full_like(F, 1.01 * loss.lipschitz + 1e-6)
        for G in (beyond, -beyond):
            assert np.isinf(loss.conjugate(G, Y)).all(), "slopes beyond lipschitz cost inf"


def _check_clip(loss: Loss, Y: np.ndarray, rng: np.random.Generator) -> None:
    """Check that `clip` projects on the domain, which shrinks towards 0 output by output."""
    G = 3.0 * rng.standard_normal(Y.shape)
    inner, other = loss.clip(G, Y), loss.clip(3.0 * rng.standard_normal(Y.shape), Y)
    assert_allclose(loss.clip(inner, Y), inner, rtol=1e-12, err_msg="clip must be idempotent")
    near, far = np.sum((G - inner) ** 2, axis=1), np.sum((G - other) ** 2, axis=1)
    assert np.all(near <= far + 1e-12), "clip must lead to the nearest point"
    for share in (0.0, rng.uniform(size=Y.shape)):
        assert np.isfinite(loss.conjugate(share * inner, Y)).all(), "the domain shrinks towards 0"


def _check_lipschitz(loss: Loss, F: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> None:
    """Check |loss(f) - loss(q)| <= L ||f - q||, sqrt(d) L for d outputs, and that L is least."""
    if np.isinf(loss.lipschitz):
        return
    most = loss.lipschitz * (np.sqrt(F.shape[1]) if loss.variable(F, Y).ndim == 2 else 1.0)
    for size in (1e-2, 1.0, 1e4):
        Q = F + size * rng.standard_normal(F.shape)
        change = np.abs(loss.value(Q, Y) - loss.value(F, Y))
        distance = np.sqrt(np.sum((Q - F) ** 2, axis=1))
        assert np.all(change <= most * distance * (1.0 + 1e-9) + 1e-9), "lipschitz is too small"
    slopes = [np.abs(loss.gradient(Y + far, Y)).max() for far in (1e4, -1e4)]
    if F.shape[1] == 1:
        assert_allclose(max(slopes), loss.lipschitz, rtol=1e-6, err_msg="least lipschitz")


def _check_ramps(loss: Loss, F: np.ndarray, Y: np.ndarray) -> None:
    """Check that near each kink and far away, the slope is the sum of those of the ramps."""
    assert bool(loss.ramps) != loss.smooth, "a loss is smooth or has ramps"
    kinks = np.array([ramp.kink for ramp in loss.ramps])
    near = np.concatenate([kinks - _NEAR, kinks + _NEAR])
    for s in (*near, *(2.0 * near), -50.0, 50.0) if loss.ramps else ():
        ends = [_moved_to(loss, s + side * _NUDGE, F, Y) for side in (-1.0, 1.0)]
        slope = (loss.value(ends[1], Y) - loss.value(ends[0], Y)) / 2.0 / _NUDGE
        sides = [ramp.high if s > ramp.kink else ramp.low for ramp in loss.ramps]
        expected = np.zeros_like(loss.variable(F, Y)) + sum(sides)
        assert_allclose(slope, _columns(expected).sum(axis=1), atol=1e-5, err_msg=f"slope at {s:g}")


def check_decoder(decoder: Decoder, basis: KernelBasis, Y: Objects, F: np.ndarray) -> None:
    """Check that a decoder finds objects that score as well as any of the training outputs.

    Parameters
    ----------
    decoder : decoder
        It is cloned and fitted.
    basis : KernelBasis
        Fitted on the outputs.
    Y : objects
        The outputs.
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
    params = repr(clone(decoder).get_params())
    decoder = clone(decoder).fit(basis, Y)
    decoded = basis.kernel_.encode(decoder.decode(F))
    assert n_rows(decoded) == len(F), "one object a row"
    assert n_rows(decoder.decode(F[:0])) == 0, "no rows, no objects"
    refitted = clone(decoder).fit(basis, Y, basis.transform(Y))
    assert_allclose(
        basis.transform(refitted.decode(F)), basis.transform(decoded), err_msg="given coordinates"
    )
    assert repr(decoder.get_params()) == params, "parameters must not change"
    Z, norms = basis.transform(Y), basis.kernel_.diag(basis.kernel_.encode(Y))
    best = (2.0 * F @ Z.T - norms).max(axis=1)
    score = 2.0 * np.einsum("ij,ij->i", F, basis.transform(decoded)) - basis.kernel_.diag(decoded)
    slack = 1e-8 * (np.abs(best) + np.abs(norms).max())
    assert np.all(score >= best - slack), f"a training output is better by {(best - score).max():g}"


def check_kind(
    kind: Kind, Y: Objects, cells: Cells | None = None, columns: Sequence[str] = ("output",)
) -> None:
    """Check that a kind of output can be predicted, scored and shown, and be in tables.

    Parameters
    ----------
    kind : Kind
        The kind to check.
    Y : outputs of this kind, at least four, of which neighbors differ
        Outputs as an array or list.
    cells : cells of a column of text, or numbers of shape (n, n_columns), optional
        Outputs as a table has them.
    columns : names of their columns, default ("output",)
        As many as the cells have.

    Examples
    --------
    >>> from skout.kinds import Rankings
    >>> from skout.testing import check_kind
    >>> check_kind(Rankings(), [[0, 1], [1, 0], [0, 1], [1, 0]], ["a>b", "b > a"])
    """
    Y = kind.check(Y)
    n = n_rows(kind.check(Y))
    basis = kind.basis(Y, random_state=0)
    F = np.asarray(basis.fit_transform(Y))
    decoders = [decoder.fit(basis, Y) for decoder in kind.decoders(Y).values()]
    best, other = kind.score(Y, Y), kind.score(Y, take(Y, np.roll(np.arange(n), 1)))
    assert best > other, f"the truth must score more than other outputs. Got {best} and {other}"
    scores = kind.decoded_scores(decoders, F, Y)
    assert scores.shape == (len(decoders), n), "decoded_scores has a row for each decoder"
    for decoder, row in zip(decoders, scores, strict=True):
        assert_allclose(row, kind.row_scores(Y, decoder.decode(F)), atol=1e-6, err_msg="scores")
    baseline = basis.transform(kind.baseline(Y))
    assert baseline.shape == (1, F.shape[1]), "the baseline is one output, and has coordinates"
    measures, evaluation = kind.measures(Y, Y), kind.evaluate(Y, Y)
    assert {*measures} <= {*evaluation}, "evaluate has all measures"
    assert all(rows.shape == (n,) for rows in measures.values()), "a measure has a number a row"
    named = kind.named(kind.names(Y))
    assert len(named.words(Y)) == len(named.write(Y)) == n, "words and texts of each output"
    assert all(isinstance(named.picture(text), str) for text in named.write(Y)), "SVG, or empty"
    if cells is None:
        return
    kind = kind.learn(cells, columns)
    again = replace(kind, **json.loads(json.dumps(asdict(kind))))  # as its fields are in a file
    is_text, objects = kind.reads_text(len(columns)), kind.read(cells)
    written = kind.write if is_text else kind.to_columns
    assert n_rows(objects) == len(cells), "an output for each cell"
    same = again.read_candidates(written(objects))
    assert_array_equal(written(same), written(objects), err_msg="what is written is read")
    assert kind.unreadable(cells) == [], "candidates that can be read"
    if is_text:
        words = [sorted(cell) for cell in kind.words(objects)]
        assert words == [sorted(cell) for cell in kind.split(cells)], "words are those of cells"
