"""Eight threads predict with one model for a minute: the same answers as one thread.

    python -m benchmarks.threads [--seconds 60] [--threads 8]

Every answer is compared with that of one thread, bit for bit.
"""

from __future__ import annotations

import argparse
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.measure import print_table, write_record
from skout import KernelRidge, sisokr
from skout.sketches import SubSample


def main() -> None:
    """Predict in threads, and record how many answers differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=8)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 10))
    ridge = KernelRidge(sketch=SubSample(200), random_state=0, n_jobs=2).fit(X, X[:, :3])
    sets = sisokr("gaussian", "tanimoto", random_state=0).fit(X, (X > 0.5).astype(int))
    questions = {"predict": lambda: ridge.predict(X), "rank": lambda: sets.rank(X, k=5)[1]}
    expected = {name: ask() for name, ask in questions.items()}
    start, end = threading.Barrier(given.threads), time.monotonic() + given.seconds

    def work(thread: int) -> dict[str, tuple[int, int]]:
        counts = {name: [0, 0] for name in questions}
        start.wait()
        while time.monotonic() < end:
            for name, ask in questions.items():
                counts[name][0] += 1
                counts[name][1] += not np.array_equal(ask(), expected[name])
        return {name: (asked, wrong) for name, (asked, wrong) in counts.items()}

    with ThreadPoolExecutor(given.threads) as pool:
        found = list(pool.map(work, range(given.threads)))
    rows = [
        {
            "question": name,
            "threads": given.threads,
            "seconds": given.seconds,
            "answers": sum(counts[name][0] for counts in found),
            "different": sum(counts[name][1] for counts in found),
        }
        for name in questions
    ]
    print_table(rows, list(rows[0]))
    settings = vars(given) | {"rows of a question": len(X)}
    print(write_record("threads", settings, rows))


if __name__ == "__main__":
    main()
