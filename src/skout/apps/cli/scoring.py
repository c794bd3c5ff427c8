"""How good predictions of a table are: the metrics of each kind of output, and their doubt."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from skout.dev import n_rows, take
from skout.metrics import example_f1, hamming_loss, kendall_tau, kernel_similarity, subset_accuracy

__all__ = ["MeanScore", "NumberScore", "new_score"]

Metric = Callable[[Any, Any], float]
# Samples of the rows that the standard error of numbers comes from.
_SAMPLES = 200


def new_score(kind: str, model: Any) -> "MeanScore | NumberScore":
    """Return what gathers the metrics of a kind of output.

    The model's output kernel compares objects that have no metric of their own.
    """
    return NumberScore() if kind == "numbers" else MeanScore(_metrics(kind, model))


def _metrics(kind: str, model: Any) -> dict[str, Metric]:
    """Return the metrics of a kind of objects: means over rows."""
    if kind == "label_sets":
        return {
            "example_f1": _padded(example_f1),
            "hamming_loss": _padded(hamming_loss),
            "exact_matches": _padded(subset_accuracy),
        }
    if kind == "rankings":
        return {"kendall_tau": kendall_tau, "exact_matches": _same_rows}
    if kind == "classes":
        return {"accuracy": lambda truth, found: float(np.mean(truth == np.asarray(found)))}
    kernel = model.output_basis_.kernel_
    return {
        "exact_matches": lambda truth, found: float(
            np.mean([a == b for a, b in zip(truth, found, strict=True)])
        ),
        "kernel_similarity": lambda truth, found: kernel_similarity(kernel, truth, found),
    }


def _padded(metric: Metric) -> Metric:
    """Return a metric for truths with labels that the model has never seen, and cannot find."""

    def padded(truth: Any, found: Any) -> float:
        found = sparse.csr_matrix(found)
        found.resize(truth.shape)
        return metric(truth, found)

    return padded


def _same_rows(truth: Any, found: Any) -> float:
    return float(np.mean(np.all(np.asarray(truth) == np.asarray(found), axis=1)))


class MeanScore:
    """Means over rows that come in blocks."""

    def __init__(self, metrics: dict[str, Metric]) -> None:
        self.n, self._metrics = 0, metrics
        self._sums = dict.fromkeys(metrics, 0.0)
        #: the metric that tells most of one row; the greater the better
        self.main = "kernel_similarity" if "kernel_similarity" in metrics else next(iter(metrics))
        self.sign = 1.0

    def add(self, truth: Any, found: Any) -> None:
        n = n_rows(truth)
        for name, metric in self._metrics.items():
            self._sums[name] += n * metric(truth, found)
        self.n += n

    def result(self) -> dict[str, float]:
        return {name: total / self.n for name, total in self._sums.items()}

    def each(self, truth: Any, found: Any) -> dict[str, np.ndarray]:
        """Return the metrics of each row."""
        rows = [slice(i, i + 1) for i in range(n_rows(truth))]
        pairs = [(take(truth, one), take(found, one)) for one in rows]
        return {
            name: np.array([metric(*pair) for pair in pairs])
            for name, metric in self._metrics.items()
        }

    def errors(self, truth: Any, found: Any, n: int) -> dict[str, float | None]:
        """Return the standard error of each mean of n rows, of which these are a sample."""
        # s / sqrt(n), with s^2 the variance over rows
        if n_rows(truth) < 2:
            return dict.fromkeys(self._metrics)
        each = self.each(truth, found)
        return {name: float(np.std(values, ddof=1) / n**0.5) for name, values in each.items()}


class NumberScore:
    """Root mean squared error over all numbers, and the mean over columns of R2."""

    main, sign = "rmse", -1.0

    def __init__(self) -> None:
        self.n = 0
        self._errors: Any = 0.0
        self._scaler = StandardScaler()

    def add(self, truth: np.ndarray, found: np.ndarray) -> None:
        errors = truth - np.reshape(found, truth.shape)
        self._errors = self._errors + (errors**2).sum(axis=0)
        self._scaler.partial_fit(truth)
        self.n += len(truth)

    def result(self) -> dict[str, float | None]:
        errors, variance = self._errors / self.n, self._scaler.var_
        has_r2 = bool((variance > 0.0).all())  # a constant column has none
        r2 = float(np.mean(1.0 - errors / np.where(variance > 0.0, variance, 1.0)))
        return {"rmse": float(np.sqrt(errors.mean())), "r2": r2 if has_r2 else None}

    def each(self, truth: np.ndarray, found: np.ndarray) -> dict[str, np.ndarray]:
        """Return the root mean squared error of each row."""
        errors = truth - np.reshape(found, truth.shape)
        return {"rmse": np.sqrt((errors**2).mean(axis=1))}

    def errors(self, truth: np.ndarray, found: np.ndarray, n: int) -> dict[str, float | None]:
        """Return the standard error of each metric of n rows, of which these are a sample."""
        # deviation over samples of m rows with replacement, times sqrt(m / n)
        m, rng = len(truth), np.random.default_rng(0)
        if m < 2:
            return {"rmse": None, "r2": None}
        found = np.reshape(found, truth.shape)
        draws: dict[str, list[float]] = {"rmse": [], "r2": []}
        for _ in range(_SAMPLES):
            rows, one = rng.integers(m, size=m), NumberScore()
            one.add(truth[rows], found[rows])
            for name, value in one.result().items():
                draws[name] += [] if value is None else [value]
        return {
            name: float(np.std(values, ddof=1) * (m / n) ** 0.5) if len(values) > 1 else None
            for name, values in draws.items()
        }
