"""Counts of requests, in the text format of Prometheus."""

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Any

# The upper ends of the bins of the histogram of seconds.
_ENDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts requests by address and status, their seconds, and their rows."""

    rows: int

    def __init__(self) -> None:
        self.rows = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_ENDS) + 1))
        self._seconds: Counter[str] = Counter()

    def add(self, route: str, status: int, seconds: float, rows: int) -> None:
        """Count a request; `route` is an address of the server, not the path of the request."""
        self._requests[route, status] += 1
        self._buckets[route][bisect_left(_ENDS, seconds)] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]
        self.rows += rows

    def text(self, now: dict[str, Any]) -> str:
        """Return all counts and the gauges of `now` in the text format of Prometheus."""
        lines = ["# TYPE skout_requests_total counter"]
        for (route, status), n in sorted(self._requests.items()):
            lines.append(f'skout_requests_total{{route="{route}",status="{status}"}} {n}')
        lines.append("# TYPE skout_request_seconds histogram")
        for route, counts in sorted(self._buckets.items()):
            lines += self._histogram(route, counts)
        lines += ["# TYPE skout_rows_total counter", f"skout_rows_total {self.rows}"]
        lines += ["# TYPE process_cpu_seconds_total counter"]
        lines += [f"process_cpu_seconds_total {time.process_time():.3f}"]
        for name, value in now.items():
            kind = "counter" if name.partition("{")[0].endswith("_total") else "gauge"
            head = f"# TYPE {name.partition('{')[0]} {kind}"
            lines += [line for line in (head,) if line not in lines] + [f"{name} {value}"]
        return "\n".join(lines) + "\n"

    def _histogram(self, route: str, counts: list[int]) -> list[str]:
        lines, total = [], 0
        for end, count in zip((*map(str, _ENDS), "+Inf"), counts, strict=True):
            total += count
            lines.append(f'skout_request_seconds_bucket{{route="{route}",le="{end}"}} {total}')
        lines.append(f'skout_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}')
        lines.append(f'skout_request_seconds_count{{route="{route}"}} {total}')
        return lines
