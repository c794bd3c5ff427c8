"""A kind of output that skout does not have: intervals of time within a day, in minutes."""

import re

import numpy as np

from skout.kernels import Kernel
from skout.kinds import Kind, values_of


class Overlap(Kernel):
    """k(a, b) = the time that two intervals share over the time that either takes."""

    compares = "intervals"

    @property
    def normalized(self):
        return True

    def encode(self, objects):
        rows = np.asarray(objects, dtype=float).reshape(-1, 2)
        if not np.all(rows[:, 0] < rows[:, 1]):
            raise ValueError("objects must be intervals that begin before they end.")
        return rows

    def against(self, B):
        def block(A, out=None):  # noqa: ARG001
            begin = np.maximum(A[:, :1], B[:, 0])
            shared = np.maximum(np.minimum(A[:, 1:], B[:, 1]) - begin, 0.0)
            return shared / (np.subtract(*A.T[::-1])[:, None] + np.subtract(*B.T[::-1]) - shared)

        return block

    def diag(self, A):
        return np.ones(len(A))


class Intervals(Kind):
    """Rows (begin, end) in minutes; in tables a column such as 9:30-11:00, or columns of both."""

    name = "intervals"
    kernel = Overlap()
    metric = "overlap"
    baseline_name = "the median interval"
    modules = (Overlap,)

    def recognizes(self, Y):
        values = values_of(Y)
        are_pairs = values.dtype.kind in "iuf" and values.ndim == 2 and values.shape[1] == 2
        return are_pairs and bool(np.all(values[:, 0] < values[:, 1]))

    def check(self, Y):
        return self.kernel.encode(super().check(Y))

    def baseline(self, Y, sample_weight=None):
        return np.median(Y, axis=0, keepdims=True)

    def reads_text(self, n_columns):
        return n_columns == 1

    def read(self, cells):
        if isinstance(cells, np.ndarray):
            return self.check(cells)
        times = [re.fullmatch(r"(\d+):(\d\d)-(\d+):(\d\d)", cell.strip()) for cell in cells]
        if None in times:
            raise ValueError(f"{cells[times.index(None)]!r}, which is no interval as 9:30-11:00.")
        parts = np.array([[int(part) for part in time.groups()] for time in times])
        return 60.0 * parts[:, ::2] + parts[:, 1::2]

    def words(self, objects):
        rows = np.asarray(objects).round().astype(int).tolist()
        return [["-".join(f"{t // 60}:{t % 60:02}" for t in row)] for row in rows]

    def picture(self, text):
        begin, end = self.read([text])[0]
        bar = f'<path d="M{begin / 10:g} 4H{end / 10:g}"/>'
        return f'<svg viewBox="0 0 144 8" xmlns="http://www.w3.org/2000/svg">{bar}</svg>'
