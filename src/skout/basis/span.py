"""From a kernel, a sketch and rows to the span that a fit works in: landmarks, W and components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, take, unique
from .._numerics.linalg import eigen_whitening, pivoted_cholesky, triangular_inverse
from ..kernels import Kernel
from ..rows import Reduction, Source, Survey
from ..sketches import Draw, Sketch
from .engine import Engine, kept_rows, pivot_noise
from .features import KernelMatrix
from .passes import KnownRows
from .products import principal

__all__ = ["Span", "span_of"]

# Most draws of a sketch whose random signs let equal rows cancel, so that nothing is left.
_DRAWS = 8


class Span(NamedTuple):
    """What `span_of` returns.

    Attributes
    ----------
    engine : Engine
    known : KnownRows, optional
        Features of rows that are landmarks, for `Engine.moments` of the same rows.
    also : object
        The result of the reduction that the same pass made.
    """

    engine: Engine
    known: KnownRows | None = None
    also: Any = None


@dataclass(frozen=True)
class _Surveyed:
    """What one pass over the rows gives: see `_survey`."""

    kernel: Kernel  # with its parameters resolved
    landmarks: Any
    weights: Any  # W
    place: np.ndarray  # the number of the landmark that each row is, -1 where it is none
    also: Any


def span_of(
    kernel: Kernel,
    sketch: Sketch | None,
    rows: Source,
    rng: np.random.Generator,
    weights: Any = None,
    *,
    whiten: str = "cholesky",
    rank: int | None = None,
    remember: bool = False,
    lazily: float = np.inf,
    also: Reduction | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
) -> Span:
    """Return the span of a sketch of rows.

    Parameters
    ----------
    kernel : Kernel
        Its words, such as gamma="scale", are resolved on the rows.
    sketch : Sketch or None
        None takes all distinct rows.
    rows : Source
        Encoded.
    rng : Generator
    weights : array, optional
        Of the rows: they count where the width of the kernel is found.
    whiten, rank
        See `KernelBasis`.
    remember : bool, default False
        Whether to keep the features of rows that are landmarks, for `Engine.moments`.
    lazily : float, default inf
        From so many landmarks on, the components are only found when they are needed.
    also : Reduction, optional
        Made by the same pass.
    n_jobs, device
        Of the engine.
    """
    if len(rows) == 0:
        raise ValueError("Found array with 0 sample(s): a basis needs at least one row.")
    result = None
    if rows.pool is not None:  # a stream, whose first pass drew a sample
        result = None if also is None else rows.reduce(also, np.arange(len(rows)))
        (rows, weights), remember, also = rows.pool, False, None
    options: dict[str, Any] = {
        "whiten": whiten, "is_exact": sketch is None, "n_jobs": n_jobs, "device": device,
        "is_single": rows.precision == np.float32,
    }  # fmt: skip
    for _ in range(_DRAWS):
        found = _survey(kernel, sketch, rows, rng, weights, also, n_jobs)
        landmarks, W = found.landmarks, found.weights
        if n_rows(landmarks if W is None else W) >= lazily:
            landmarks = _distinct(landmarks) if W is None else landmarks
            options["n_effective"] = n_rows(landmarks) if W is None else len(rows)
            engine = Engine(found.kernel, landmarks, W, **options)
            return Span(engine, None, result if also is None else found.also)
        sketched = KernelMatrix(found.kernel, landmarks, n_jobs).sketched(W)
        if W is None or sketched[0].any():
            break
    remembered = found.place if remember and rows.has_shortcuts else None
    engine, known = _factorised(found, rows, sketched, rank, remembered, options)
    return Span(engine, known, result if also is None else found.also)


def _factorised(
    found: _Surveyed,
    rows: Source,
    sketched: tuple[np.ndarray, np.ndarray | None, float],
    rank: int | None,
    place: np.ndarray | None,
    options: dict[str, Any],
) -> tuple[Engine, KnownRows | None]:
    """Return the engine with its components, of the landmarks that they need; and known features.

    `sketched` is what `KernelMatrix.sketched` returns of the landmarks.
    """
    kernel, landmarks, W = found.kernel, found.landmarks, found.weights
    gram, features, rounding = sketched
    noise = pivot_noise(gram, rounding, options["is_single"])
    # the rows of K~ stand for so many rows of the data, see accuracy_plan; None is their number
    options = options | {"n_effective": None if W is None else len(rows)}
    if options["whiten"] != "cholesky":
        C, spectrum = eigen_whitening(gram, len(gram) * noise)
        if options["whiten"] == "kpca":
            engine = Engine(kernel, landmarks, W, C, spectrum=spectrum, **options)
            C, spectrum = principal(engine.features, C, engine.placed(rows))
        return Engine(kernel, landmarks, W, C[:rank], spectrum=spectrum[:rank], **options), None
    L, kept = pivoted_cholesky(gram, noise)
    landmarks, W = kept_rows(landmarks, W, kept)
    engine = Engine(kernel, landmarks, W, triangular_inverse(L), **options)
    if place is None or features is None or options["is_single"]:
        return engine, None
    order = kept if W is None else kept[:0]  # rows of L: landmarks
    number = np.full(len(features), -1)
    number[order] = np.arange(len(order))
    return engine, KnownRows(place, features, number, L, kept, gram)


def _survey(
    kernel: Kernel,
    sketch: Sketch | None,
    rows: Source,
    rng: np.random.Generator,
    weights: Any,
    also: Reduction | None,
    n_jobs: int | None,
) -> _Surveyed:
    """Pass over the rows for the width of the kernel, the landmarks and what else is wanted."""
    rows.check_sketch(sketch)
    survey = Survey(rows)
    resolved = kernel.surveyed(survey, rng, weights)
    result = (lambda: None) if also is None else survey.reduce(also, np.arange(len(rows)))
    if sketch is None:
        survey.run()
        everything = rows.here()
        first, inverse = unique(everything)
        return _Surveyed(resolved(), take(everything, first), None, inverse, result())
    if sketch.needs_gram:
        survey.run()
        few = rows.gathered(getattr(sketch, "max_rows", 0))  # in memory, if it needs all
        draw = _drawn(sketch, len(rows), rng, KernelMatrix(resolved(), few, n_jobs))
        landmarks = rows.take(draw.indices)
    else:
        draw = _drawn(sketch, len(rows), rng)
        drawn_rows = survey.take(draw.indices)
        survey.run()
        landmarks = drawn_rows()
    W, number = draw.weights, np.arange(n_rows(landmarks))
    if sparse.issparse(W):
        landmarks, W, number = _merge_copies(landmarks, W)
    place = np.full(len(rows), -1)
    place[draw.indices] = number
    return _Surveyed(resolved(), landmarks, W, place, result())


def _drawn(sketch: Sketch, n: int, rng: np.random.Generator, gram: Any = None) -> Draw:
    """Draw a sketch of n rows; raise where it is none, which those of users may be."""
    draw = sketch.draw(n, rng, gram)
    if not hasattr(draw, "indices"):
        got = type(draw).__name__
        raise TypeError(f"{sketch!r}.draw must return a skout.sketches.Draw. Got {got} instead.")
    indices, W = np.asarray(draw.indices), draw.weights
    shape = (draw.shape[0], len(indices))
    if len(indices) == 0:
        raise ValueError(f"{sketch!r} drew no row at all of {n}: raise its p.")
    if np.any(np.diff(indices) <= 0):
        raise ValueError(f"{sketch!r} must draw sorted and distinct indices.")
    if draw.shape[1] != n or (shape[0] != shape[1] if W is None else W.shape != shape):
        raise ValueError(
            f"{sketch!r} drew {len(indices)} of {n} rows with the shape {draw.shape} and weights "
            f"of shape {getattr(W, 'shape', None)}. The shape must be (size, {n}), that of weights "
            f"{shape}."
        )
    return draw


def _merge_copies(landmarks: Any, weights: Any) -> tuple[Any, Any, np.ndarray]:
    """Add up the columns of a sparse W that stand for equal landmarks, of which one is kept.

    Returns landmarks, W and the number that each landmark has now.
    """
    first, inverse = unique(landmarks)
    if len(first) == n_rows(landmarks):
        return landmarks, weights, inverse
    ones = (np.ones(len(inverse)), inverse, np.arange(len(inverse) + 1))
    copies = sparse.csr_matrix(ones, shape=(len(inverse), len(first)))
    return take(landmarks, first), (weights @ copies).tocsr(), inverse


def _distinct(landmarks: Any) -> Any:
    """Return the landmarks without copies."""
    first, _ = unique(landmarks)
    return landmarks if len(first) == n_rows(landmarks) else take(landmarks, first)
