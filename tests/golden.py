"""Golden results: what every kind of fit gives to the last bit, to hold a redesign to.

    python tests/golden.py --write    # before: results of this code into out/golden.npz
    python tests/golden.py            # after: compares, and names what differs and by how much

About 420 fits on small data, one thread: every estimator of tests/rows/test_matrix.py on every
source that needs no GPU, and `KernelRidge` in the combinations of its options. The bits are those
of one machine, so the file is not committed. The script goes when the redesign is done.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported
sys.path.extend(str(Path(__file__).parent / folder) for folder in ("helpers", "rows"))

import contextlib

import numpy as np
import test_matrix as matrix

from skout import KernelRidge, iokr, sisokr
from skout.kernels import Gaussian, LearnedMetric
from skout.sketches import PSparsified, SubSample

PLACE = Path(__file__).parents[1] / "out" / "golden.npz"
TENSORS = "PyTorch on the CPU"
SOURCES = ("memory", "memmap", "Blocks", "Blocks, read once", "dask array", TENSORS)
GROUPS = np.arange(matrix.N) // 4
RELATED = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]])
FULL = np.column_stack([matrix.Y_NUMBERS, np.cos(matrix.X[:, 1]), matrix.X[:, 2] ** 2])
ALPHAS = [1e-5, 1e-3, 1e-1]

# name: (parameters of KernelRidge, targets, what else is passed to fit)
RIDGES = {
    "one alpha": ({}, matrix.Y_NUMBERS, {}),
    "path": ({"alpha": ALPHAS}, FULL, {}),
    "weights": ({"alpha": ALPHAS}, FULL, {"sample_weight": matrix.W}),
    "intercept": ({"fit_intercept": True}, FULL, {}),
    "intercept, path, weights": (
        {"fit_intercept": True, "alpha": ALPHAS},
        FULL,
        {"sample_weight": matrix.W},
    ),
    "missing targets": ({}, matrix.Y_HOLES, {}),
    "missing targets, path": ({"alpha": ALPHAS, "fit_intercept": True}, matrix.Y_HOLES, {}),
    "missing targets, weights": ({"alpha": ALPHAS}, matrix.Y_HOLES, {"sample_weight": matrix.W}),
    "task matrix": ({"task_matrix": RELATED, "alpha": ALPHAS}, FULL, {}),
    "task matrix, missing targets": ({"task_matrix": RELATED}, matrix.Y_HOLES, {}),
    "learned task matrix": ({"task_matrix": "learned", "alpha": ALPHAS[1:]}, FULL, {}),
    "cg": ({"solver": "cg", "tol": 1e-8}, FULL, {}),
    "cg, path, intercept": (
        {"solver": "cg", "tol": 1e-8, "alpha": ALPHAS, "fit_intercept": True},
        FULL,
        {"sample_weight": matrix.W},
    ),
    "exact": ({"sketch": None}, FULL, {}),
    "exact, path": ({"sketch": None, "alpha": ALPHAS}, FULL, {"sample_weight": matrix.W}),
    "exact, intercept": ({"sketch": None, "fit_intercept": True}, FULL, {}),
    "exact, missing targets": ({"sketch": None, "alpha": ALPHAS}, matrix.Y_HOLES, {}),
    "exact, task matrix": ({"sketch": None, "task_matrix": RELATED}, FULL, {}),
    "exact, cg": ({"sketch": None, "solver": "cg", "tol": 1e-8, "alpha": ALPHAS}, FULL, {}),
    "learned metric": (
        {"kernel": LearnedMetric(Gaussian(0.3)), "alpha": ALPHAS},
        matrix.Y_NUMBERS,
        {},
    ),
    "groups": ({"alpha": ALPHAS}, FULL, {"groups": GROUPS}),
    "p-sparsified": ({"sketch": PSparsified(30), "alpha": ALPHAS}, FULL, {}),
    "FITC": ({"variance": "fitc"}, matrix.Y_NUMBERS, {}),
    "no penalty to speak of": ({"alpha": 1e-12, "sketch": SubSample(60)}, FULL, {}),
}
# Structured predictors as users write them.
CALLS = {
    "iokr": lambda: iokr(Gaussian(0.3), "f1", alpha=1e-3),
    "iokr, path": lambda: iokr(Gaussian(0.3), "f1", alpha=ALPHAS, random_state=0),
    "iokr, Huber": lambda: iokr(Gaussian(0.3), "f1", alpha=1e-3, loss="huber", random_state=0),
    "sisokr": lambda: sisokr("gaussian", "f1", random_state=0),
    "sisokr, single precision": lambda: sisokr("gaussian", "f1", alpha=1e-3, random_state=0),
}


def given(source, folder, y, options):
    """Return X, y and the options of fit as a source holds them, in a new folder."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    weights = options.get("sample_weight")
    X, y, weights = matrix.SOURCES.get(source, matrix.SOURCES["memory"])(
        folder, matrix.X, y, weights
    )
    kept = {name: value for name, value in options.items() if name != "sample_weight"}
    return X, y, kept if weights is None else kept | {"sample_weight": weights}


def results(model, X):
    """Return what a fitted model can be compared by."""
    arrays = {f"answer {k}": part for k, part in enumerate(matrix.answers(model, X))}
    for name in ("coef_", "intercept_", "alpha_", "task_matrix_", "noise_variance_"):
        try:
            arrays[name] = np.asarray(getattr(model, name))
        except (AttributeError, ValueError):
            continue
    for name in ("mean_loss", "fold_loss", "fold_score"):
        if name in (getattr(model, "cv_results_", None) or {}):
            arrays[name] = np.asarray(model.cv_results_[name])
    if isinstance(model, KernelRidge):
        with contextlib.suppress(ValueError):
            arrays["std"] = np.asarray(model.predict(X, return_std=True)[1])
    return arrays


def ridge_cases(folder):
    for name, (options, y, more) in RIDGES.items():
        for source in SOURCES:
            model = KernelRidge(
                **{"kernel": Gaussian(0.3), "sketch": SubSample(30), "random_state": 0, "n_jobs": 1}
                | options
            )
            if source == TENSORS:
                model.set_params(device="cuda")
            yield f"ridge, {name} | {source}", model, given(source, folder, y, more)


def matrix_cases(folder):
    for name, (make, y, takes_weights) in matrix.ESTIMATORS.items():
        for source in matrix.SOURCES:
            if source == "tensor on a GPU":
                continue
            for weighted in (False, True)[: 1 + (takes_weights and source == "memory")]:
                model = make()
                if source == 'device="cuda"':
                    model = matrix.with_device(model)
                more = {"sample_weight": matrix.W} if weighted else {}
                case = f"{name}{', weights' if weighted else ''} | {source}"
                yield case, model, given(source, folder, y, more)


def call_cases(_folder):
    for name, make in CALLS.items():
        single = name.endswith("single precision")
        X = matrix.X.astype(np.float32) if single else matrix.X
        yield f"{name} | memory", make(), (X, matrix.Y_SETS, {})


def computed(chosen):
    """Yield the name and the results of each case, or the text of the error it ends with."""
    import torch

    cpu = torch.device("cpu")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            mock.patch("skout.rows.device.torch_device", return_value=cpu),
            mock.patch("skout.decoding.search.torch_device", return_value=cpu),
        ):
            for cases in (ridge_cases, matrix_cases, call_cases):
                for name, model, (X, y, options) in cases(folder):
                    if chosen not in name:
                        continue
                    try:
                        model.fit(X) if y is None else model.fit(X, y, **options)
                        yield name, results(model, matrix.X)
                    except (ValueError, TypeError) as error:
                        yield name, {"error": np.array(str(error))}


def compare(name, new, old):
    """Print how the results of a case differ; return the largest relative difference."""
    largest = 0.0
    for key in sorted(set(new) | set(old)):
        if key not in new or key not in old:
            print(f"{name}: {key} is only in the {'new' if key in new else 'old'} results")
            largest = np.inf
            continue
        a, b = new[key], old[key]
        if a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes():
            continue
        if a.dtype.kind in "US" or a.shape != b.shape:
            print(f"{name}: {key} was {str(b)[:200]!r} and is {str(a)[:200]!r}")
            largest = np.inf
            continue
        scale = np.nanmax(np.abs(b)) or 1.0
        difference = float(np.nanmax(np.abs(a - b)) / scale)
        print(f"{name}: {key} differs by {difference:.1e} of its largest value")
        largest = max(largest, difference)
    return largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the results to compare with")
    parser.add_argument("--only", default="", help="only cases with this text in their names")
    options = parser.parse_args()
    start, count, refused, differ, largest, kept = time.time(), 0, 0, 0, 0.0, {}
    old = {} if options.write else dict(np.load(PLACE))
    for name, arrays in computed(options.only):
        count, refused = count + 1, refused + ("error" in arrays)
        if options.write:
            kept |= {f"{name}|{key}": value for key, value in arrays.items()}
            continue
        before = {k.rpartition("|")[2]: v for k, v in old.items() if k.rpartition("|")[0] == name}
        difference = compare(name, arrays, before)
        differ, largest = differ + (difference > 0), max(largest, difference)
    if options.write:
        PLACE.parent.mkdir(exist_ok=True)
        np.savez_compressed(PLACE, **kept)
    differ_by = "written" if options.write else f"{differ} differ, by {largest:.1e} at most"
    print(f"{count} cases, {refused} of them refused; {differ_by} ({time.time() - start:.0f} s)")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
