"""Tests of experiments/, which a source distribution does not have."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("experiments") and find_spec("psutil") else ["test_*.py"]
