"""`EndToEnd` beside the DSOKR it starts from: the lower half of a digit from the upper one.

    python -m experiments.ours.end_to_end [--device cuda]      the record; better with a GPU

The right lower half is ranked among those of all images, training and test. Five splits, nothing is
tuned. Each model is saved, loaded and asked again; what it answers must be the same.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import skout
from experiments.common import clock, mean_sd, print_table, write_record
from skout import EndToEnd, dsokr
from skout.kernels import Gaussian
from skout.metrics import hits_at_k, mean_reciprocal_rank
from skout.sketches import SubSample

N_TRAIN, LANDMARKS, SPLITS = 1200, 400, 5


def split(seed: int, device: str, epochs: int) -> list[dict[str, Any]]:
    """Return the scores of both methods on one split."""
    from skout.deep import MLP, Training

    images = np.random.default_rng(seed).permutation(load_digits().data.astype(np.float32) / 16)
    upper, lower = np.split(images, 2, axis=1)
    first = dsokr(
        MLP, Gaussian("median"), output_sketch=SubSample(LANDMARKS),
        training=Training(epochs, 128), random_state=seed, device=device,
    )  # fmt: skip
    model = EndToEnd(first, training=Training(epochs, 600))
    with clock() as fit:
        model.fit(upper[:N_TRAIN], lower[:N_TRAIN])
    rows = []
    for name, some in {"DSOKR": model.model_, "end to end": model}.items():
        r = some.truth_ranks(upper[N_TRAIN:], lower[N_TRAIN:], lower)
        mrr, hits = float(mean_reciprocal_rank(r)), 100 * float(hits_at_k(r, 10))
        rows.append({"method": name, "seed": seed, "MRR": mrr, "Hits@10 %": hits})
    rows[1] |= {"seconds": fit.seconds, "device": _place(model)}
    rows[1]["same after loading"] = _survives(model, upper[N_TRAIN:], lower)
    return rows


def _place(model: Any) -> str:
    return str(next(model.regressor_.module_.parameters()).device)


def _survives(model: Any, X: np.ndarray, candidates: np.ndarray) -> bool:
    """Return whether a saved and loaded model predicts and ranks as before."""
    with tempfile.TemporaryDirectory() as folder:
        skout.save(model, Path(folder) / "model.skout")
        again = skout.load(Path(folder) / "model.skout")
    numbers, values = model.rank(X, candidates, k=10)
    numbers_again, values_again = again.rank(X, candidates, k=10)
    return (
        np.array_equal(model.predict(X), again.predict(X))
        and np.array_equal(numbers, numbers_again)
        and bool(np.allclose(values, values_again, rtol=1e-6))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="one split, few epochs, no record")
    o = parser.parse_args()
    n, epochs = (1, 3) if o.quick else (SPLITS, 100)
    rows = [row for seed in range(n) for row in split(seed, o.device, epochs)]
    for name in ("DSOKR", "end to end"):
        mean, sd = mean_sd(row["MRR"] for row in rows if row["method"] == name)
        print(f"{name}: MRR {mean:.3f} +- {sd:.3f}")
    print_table(rows, ["method", "seed", "MRR", "Hits@10 %"])
    if not o.quick:
        settings = {"n_train": N_TRAIN, "landmarks": LANDMARKS, "epochs": epochs}
        write_record("end_to_end", settings, rows)


if __name__ == "__main__":
    main()
