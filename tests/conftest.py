"""Settings that every test module shares.

NumPy's default generator is seeded here: `np.random.default_rng()` without a seed gives the same
draws at every run, and so does Hypothesis. `make test-unseeded` runs the tests without either.
"""

import dataclasses
import gc
import itertools
import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import settings

SEEDED = not os.environ.get("SKOUT_UNSEEDED")
# The same examples at every run, and no deadline: the machines that run this are shared.
settings.register_profile("skout", deadline=None, derandomize=SEEDED, max_examples=40)
settings.load_profile("skout")


def pytest_configure(config):
    """Give each worker of `pytest -n` one thread, before it starts.

    Workers share the cores, where threads beyond one each only wait for each other.
    """
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Old versions of Hypothesis ask the collector who holds an object, and frozen ones do not tell.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:It looks like .register_random. was passed:hypothesis.errors.HypothesisWarning",
    )
    gc.disable()


# Draws without a seed are the same at every run too: a test fails always or never.
_default_rng, _seeds = np.random.default_rng, itertools.count()


def _seeded(seed=None):
    return _default_rng(next(_seeds) if seed is None else seed)


def pytest_runtest_setup():
    """Begin to count seeds anew, so that other tests have no part in what a test draws."""
    global _seeds
    _seeds = itertools.count()
    if SEEDED:
        np.random.default_rng = _seeded


def pytest_collection_finish():
    """Let the collector of garbage look at what tests make, not at a million objects of modules.

    Each look at those takes half a second, and there would be dozens.
    """
    gc.freeze()
    gc.enable()


# What has another implementation where an extra is missing: `make test-core` runs all of it. Of
# other tests it takes, of parametrised cases, the first and every eighth; `make test` runs all.
REPLACED = {f"test_{name}.py" for name in ("bits", "core", "first_minutes", "frames", "index")}


def pytest_collection_modifyitems(config, items):
    """Choose the cases of `make test-core`."""
    if "SKOUT_CORE" not in os.environ:
        return
    seen = Counter()
    kept, left = [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        many = item.path.name not in REPLACED and seen[test] % 8
        (left if many else kept).append(item)
        seen[test] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip the tests to which skout says that they need an extra which is left out.

    `make test-core` leaves out all of them, and SKOUT_WITHOUT names one. An import that fails in
    any other way is a fault: skout needs an extra where it should not.
    """
    without = "" if "SKOUT_CORE" in os.environ else os.environ.get("SKOUT_WITHOUT")
    try:
        return (yield)
    except ImportError as error:
        if without is not None and f"skout[{without}" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture
def few_trees(monkeypatch):
    """Let forests of `Tuned` have ten trees at most, where a test does not care how many."""
    from skout.apps.tuning import MAPS

    for name in ("extra trees", "random forest"):
        build = MAPS[name].build

        def small(settings, *params, build=build):
            few = min(settings.n_estimators, 10)
            return build(dataclasses.replace(settings, n_estimators=few), *params)

        monkeypatch.setattr(MAPS[name], "build", small)
