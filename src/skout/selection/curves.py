"""From which size on does an output sketch lose nothing? Curves of the perfect surrogate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm.auto import tqdm

from .._numerics.arrays import n_rows, take, unique
from .._numerics.objects import stack
from .._numerics.validation import check_number, check_rng, check_size, resolve
from ..basis import KernelBasis
from ..decoding import CandidateDecoder
from ..kernels import Kernel, as_kernel
from ..kinds.scoring import metrics, score_objects
from ..metrics import mean_reciprocal_rank
from ..sketches import as_sketch
from .common import axes, count, encoded, trials

__all__ = ["PerfectHCurve", "perfect_h_curve"]


@dataclass(frozen=True, eq=False)
class PerfectHCurve:
    """What the projection on the sketched basis reaches, for each sketch size.

    Attributes
    ----------
    table : dict of arrays
        "size", increasing; "mean_mse" and "std_mse" over the draws, of the mean over validation
        outputs of ||h(y) - psi(y)||^2 = k(y, y) - ||z(y)||^2; if decoded, "mean_similarity" and
        "std_similarity" of the mean normalised kernel similarity of decoded and true outputs, or
        "mean_score" and "std_score" of the metric that was asked for.
    mean_norm : float, the mean of k(y, y)
    """

    table: dict[str, np.ndarray]
    mean_norm: float

    @property
    def criterion(self) -> str:
        """What sizes are judged by: "score" or "similarity" if decoded, else "mse"."""
        return next(name for name in ("score", "similarity", "mse") if f"mean_{name}" in self.table)

    def best_size(self, tolerance: float = 0.01) -> int:
        """Return the smallest size within tolerance of the best score, or mse / mean_norm."""
        check_number(tolerance, "tolerance")
        scale = 1.0 / (self.mean_norm or 1.0) if self.criterion == "mse" else -1.0
        loss = scale * self.table[f"mean_{self.criterion}"]
        return int(self.table["size"][np.argmax(loss <= loss.min() + tolerance)])

    def plot(self, ax: Any = None) -> Any:
        """Draw mean and deviation of the criterion against the size (figure 5.2, centre)."""
        ax = axes(ax, "sketch size", f"{self.criterion} of the perfect h")
        mean, std = (self.table[f"{part}_{self.criterion}"] for part in ("mean", "std"))
        ax.errorbar(self.table["size"], mean, std, marker="o", capsize=3)
        return ax


def perfect_h_curve(
    kernel: Any,
    Y: Any,
    sizes: Iterable[int],
    *,
    Y_val: Any = None,
    candidates: Any = None,
    decode: bool = True,
    metric: Any = "similarity",
    sketch: Any = "subsample",
    n_draws: int = 3,
    random_state: Any = None,
    verbose: bool = False,
) -> PerfectHCurve:
    """Judge output sketches by the surrogate that predicts perfectly in their span (5.20).

        h(y) = sum_j <e_j, psi(y)> e_j       the projection of psi(y) on the sketched basis

    No regressor into that basis comes nearer to psi(y), and none has to be trained: the curve says
    from which size on the sketch loses little. The mean squared error is a lower bound of what any
    regressor reaches. The similarity of decoded outputs is no upper bound: a prediction that is
    farther from psi(y) may still be nearest to y among the candidates.

    Parameters
    ----------
    kernel : kernel, str or callable
    Y : objects
        Training outputs, which the sketches are drawn from.
    sizes : sequence of int
    Y_val : objects, optional
        Validation outputs; default a random fifth of Y, which is then held out.
    candidates : objects, optional
        Pool to decode from; default the distinct outputs of Y and Y_val.
    decode : bool, default True
        Whether to decode, which may cost more than all the rest.
    metric : str or callable (Y_true, Y_pred) -> float, default "similarity"
        What decoded outputs are judged by, the greater the better: the normalised kernel
        similarity; "mrr", the mean reciprocal rank of the truth among the candidates (figure 5.5);
        a name that `scoring` of a predictor takes; or a function, e.g. minus the mean edit
        distance (figure 5.3).
    sketch : sketch or str, default "subsample"
        Its size is set to each of `sizes`.
    n_draws : int, default 3
        Sketches drawn for each size.
    random_state : None, int or Generator
    verbose : bool, default False

    Returns
    -------
    curve : PerfectHCurve

    Examples
    --------
    >>> import numpy as np
    >>> from skout.selection import perfect_h_curve
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 30))  # a space of 4 dimensions
    >>> perfect_h_curve("linear", Y, [1, 2, 3, 4, 8, 16], random_state=0).best_size()
    4
    """
    if sketch is None:
        raise ValueError("sketch must be a sketch or its name, since its size is varied. Got None.")
    sketch, n_draws = clone(as_sketch(sketch)), count(n_draws, "n_draws")
    rng = check_rng(random_state)
    kernel, Y, Y_val, train, held = _outputs(kernel, Y, Y_val, rng)
    grid = sorted({check_size(m, n_rows(train), "sizes") for [m] in trials(sizes, ["sketch"])})
    name = "similarity" if metric == "similarity" else "score"
    found: dict[str, list[float]] = {"mse": []}
    if decode:
        score = _judge(metric, kernel, train, Y_val, _pool(kernel, Y, Y_val, candidates))
        found[name] = []
    seeds = rng.integers(2**31, size=n_draws)  # of the draws, the same ones for each size
    for size, seed in tqdm([(m, s) for m in grid for s in seeds], disable=not verbose):
        sketch.set_params(size=size)
        basis = KernelBasis(kernel, sketch, random_state=int(seed)).fit(train)
        found["mse"].append(basis.residual(held).mean())
        if decode:
            found[name].append(score(basis, basis.transform(held)))
    table = {"size": np.array(grid)}
    for name in found:
        draws = np.reshape(found[name], (len(grid), n_draws))
        table |= {f"mean_{name}": draws.mean(axis=1), f"std_{name}": draws.std(axis=1)}
    return PerfectHCurve(table, float(kernel.diag(held).mean()))


def _judge(
    metric: Any, kernel: Kernel, train: Any, truth: Any, pool: Any
) -> Callable[[KernelBasis, np.ndarray], float]:
    """Return the function from a basis and coordinates to the score of what they decode to."""
    if metric != "mrr" and not callable(metric):
        metric = "kernel" if metric == "similarity" else metric
        resolve(metric, metrics(), "metric")

    def score(basis: KernelBasis, F: np.ndarray) -> float:
        decoder = CandidateDecoder().fit(basis, pool)
        if metric == "mrr":
            return mean_reciprocal_rank(decoder.truth_ranks(F, truth))
        return score_objects(metric, kernel, train, truth, decoder.decode(F))

    return score


def _pool(kernel: Kernel, Y: Any, Y_val: Any, candidates: Any) -> Any:
    """Return the distinct objects to decode from: by default all there are."""
    if candidates is not None:
        return take(candidates, unique(kernel.encode(candidates))[0])
    rows = [kernel.encode(Y), kernel.encode(Y_val)]
    first, n = unique(stack(rows))[0], n_rows(rows[0])
    known, new = take(Y, first[first < n]), take(Y_val, first[first >= n] - n)
    return [*known, *new] if isinstance(Y, list | tuple) else stack([known, new])


def _outputs(kernel: Any, Y: Any, Y_val: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return the kernel, resolved on the training outputs, and both parts: objects, then rows."""
    train = as_kernel(kernel).encode(Y)
    if Y_val is None:
        order, n_val = rng.permutation(n_rows(train)), max(1, n_rows(train) // 5)
        used, rest = np.sort(order[n_val:]), np.sort(order[:n_val])
        Y, Y_val, train = take(Y, used), take(Y, rest), take(train, used)
    held = as_kernel(kernel).encode(Y_val)
    if 0 in (n_rows(train), n_rows(held)):
        raise ValueError("There must be at least one training and one validation output.")
    kernel, train = encoded(kernel, train, rng, "Y")
    return kernel, Y, Y_val, train, held
