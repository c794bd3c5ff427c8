"""Settings that every test module shares."""

import os

# Workers of `pytest -n` share the cores: more threads than one each only wait for each other.
# Before NumPy is imported, and for the processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# The same examples at every run, and no deadline: the machines that run this are shared.
settings.register_profile("skout", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("skout")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """In `make test-core` skip the tests to which skout says which extra they need.

    An import that fails in any other way is a fault: skout needs an extra where it should not.
    """
    try:
        return (yield)
    except ImportError as error:
        if "SKOUT_CORE" in os.environ and "pip install skout[" in str(error):
            pytest.skip(str(error))
        raise
