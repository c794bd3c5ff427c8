"""A process that saves a model again and again is killed: the file is the old or the new one.

    python benchmarks/kills.py [--kills 100] [--seed 0]

Two models take turns, and each file also says which save it is from. After every kill the file is
loaded and must predict, bit for bit, what the model of that save predicts.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import print_table, write_record

import skout

PER_CHILD = 10**6  # numbers that a child may use for its saves


def save_until_killed(models: list[skout.StructuredPredictor], path: Path, first: int) -> None:
    """Save the models in turn; never return."""
    for number in range(first, first + PER_CHILD):
        skout.save(models[number % 2], path, metadata={"number": number})
    os._exit(0)


def killed_child(
    models: list[skout.StructuredPredictor], path: Path, first: int, wait: float
) -> None:
    """Start a child that saves, and kill it after some seconds."""
    child = os.fork()
    if child == 0:
        save_until_killed(models, path, first)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main() -> None:
    """Kill, look at the file, and record what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, draw = np.random.default_rng(0), random.Random(given.seed)
    X = rng.standard_normal((500, 10))
    sets = [(X > 0.0).astype(int), (X > 0.5).astype(int)]
    models = [skout.sisokr(output_kernel="tanimoto", random_state=0).fit(X, Y) for Y in sets]
    expected = [model.predict(X) for model in models]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.skout")
        clock = time.perf_counter()
        skout.save(models[0], path, metadata={"number": 0})
        usual = time.perf_counter() - clock
        old, saves, interrupted, wrong = 0, set(), 0, 0
        for turn in range(1, given.kills + 1):
            killed_child(models, path, turn * PER_CHILD, draw.uniform(0.0, 5.0 * usual))
            left = [one for one in Path(folder).iterdir() if one != path]
            interrupted += bool(left)
            for one in left:
                one.unlink()
            number = skout.persistence.describe(path)["about"]["metadata"]["number"]
            right = np.array_equal(skout.load(path).predict(X), expected[number % 2])
            wrong += not (right and (number == old or number >= turn * PER_CHILD))
            old = number
            saves.add(number)
        size = path.stat().st_size
    row = {
        "kills": given.kills,
        "in the middle of a write": interrupted,
        "different saves seen": len(saves),
        "neither old nor new": wrong,
    }
    print_table([row], list(row))
    print(write_record("kills", vars(given) | {"bytes of a file": size}, [row]))


if __name__ == "__main__":
    main()
