"""How good predictions of a table are: what their kind measures, and standard errors."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skout.dev import n_rows, take
from skout.kinds import Kind

__all__ = ["Scores"]

# Samples of the rows that standard errors of what is no mean over rows come from.
_SAMPLES = 200


@dataclass(frozen=True)
class Scores:
    """Predictions of a kind of output beside the truth."""

    kind: Kind
    truth: Any
    found: Any

    @cached_property
    def each(self) -> dict[str, np.ndarray]:
        """The measures of each row; the first is the main one."""
        return self.kind.measures(self.truth, self.found)

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """The measures of all rows together."""
        return self.kind.evaluate(self.truth, self.found)

    @property
    def main(self) -> str:
        """The measure that tells most of one row."""
        return next(iter(self.each))

    @property
    def merit(self) -> float:
        """The main measure, the greater the better."""
        return self.sign * float(self.metrics[self.main])  # type: ignore[arg-type]

    @property
    def sign(self) -> float:
        """-1 where less of the main measure is better."""
        return -1.0 if self.kind.first_is_error else 1.0

    def errors(self, n: int) -> dict[str, float | None]:
        """Return the standard error of each measure of n rows, of which these are a sample."""
        if n_rows(self.truth) < 2:
            return dict.fromkeys(self.metrics)
        if self.metrics == {name: float(np.mean(rows)) for name, rows in self.each.items()}:
            # means over rows: s / sqrt(n), s^2 the variance
            return {k: float(np.std(rows, ddof=1) / n**0.5) for k, rows in self.each.items()}
        # deviation over samples of m rows with replacement, times sqrt(m / n)
        m, rng = n_rows(self.truth), np.random.default_rng(0)
        draws: dict[str, list[float]] = {name: [] for name in self.metrics}
        for _ in range(_SAMPLES):
            rows = rng.integers(m, size=m)
            drawn = self.kind.evaluate(take(self.truth, rows), take(self.found, rows))
            for name, value in drawn.items():
                draws[name] += [] if value is None else [value]
        return {
            name: float(np.std(values, ddof=1) * (m / n) ** 0.5) if len(values) > 1 else None
            for name, values in draws.items()
        }
