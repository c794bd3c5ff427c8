"""From which size on does an output sketch lose nothing? Curves of the perfect surrogate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm.auto import tqdm

from .._numerics.arrays import n_rows, stack, take, unique
from .._numerics.validation import check_number, check_rng, check_size
from ..basis import KernelBasis
from ..decoding import CandidateDecoder
from ..kernels import Kernel, as_kernel
from ..metrics import kernel_similarity
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
        "std_similarity" of the mean normalised kernel similarity of decoded and true outputs.
    mean_norm : float, the mean of k(y, y)
    """

    table: dict[str, np.ndarray]
    mean_norm: float

    @property
    def criterion(self) -> str:
        """What sizes are judged by: "similarity" if there is one, else "mse"."""
        return "similarity" if "mean_similarity" in self.table else "mse"

    def best_size(self, tolerance: float = 0.01) -> int:
        """Return the smallest size within tolerance of the best similarity, or mse / mean_norm."""
        check_number(tolerance, "tolerance")
        scale = -1.0 if self.criterion == "similarity" else 1.0 / (self.mean_norm or 1.0)
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
    kernel, train, held = _outputs(kernel, Y, Y_val, rng)
    grid = sorted({check_size(m, n_rows(train), "sizes") for [m] in trials(sizes, ["sketch"])})
    if decode:
        pool = stack([train, held]) if candidates is None else kernel.encode(candidates)
        pool = take(pool, unique(pool)[0])
    seeds = rng.integers(2**31, size=n_draws)  # of the draws, the same ones for each size
    found: dict[str, list[float]] = {"mse": [], "similarity": []}
    for size, seed in tqdm([(m, s) for m in grid for s in seeds], disable=not verbose):
        sketch.set_params(size=size)
        basis = KernelBasis(kernel, sketch, random_state=int(seed)).fit(train)
        found["mse"].append(basis.residual(held).mean())
        if decode:
            decoded = CandidateDecoder().fit(basis, pool).decode(basis.transform(held))
            found["similarity"].append(kernel_similarity(kernel, held, decoded))
    table = {"size": np.array(grid)}
    for name in found if decode else ["mse"]:
        draws = np.reshape(found[name], (len(grid), n_draws))
        table |= {f"mean_{name}": draws.mean(axis=1), f"std_{name}": draws.std(axis=1)}
    return PerfectHCurve(table, float(kernel.diag(held).mean()))


def _outputs(kernel: Any, Y: Any, Y_val: Any, rng: np.random.Generator) -> tuple[Kernel, Any, Any]:
    """Return the kernel, resolved on the training outputs, and training and validation rows."""
    train = as_kernel(kernel).encode(Y)
    if Y_val is not None:
        held = as_kernel(kernel).encode(Y_val)
    else:
        order, n_val = rng.permutation(n_rows(train)), max(1, n_rows(train) // 5)
        train, held = take(train, np.sort(order[n_val:])), take(train, np.sort(order[:n_val]))
    if 0 in (n_rows(train), n_rows(held)):
        raise ValueError("There must be at least one training and one validation output.")
    return *encoded(kernel, train, rng, "Y"), held
