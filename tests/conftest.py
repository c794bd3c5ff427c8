"""Settings that every test module shares."""

from hypothesis import settings

# The same examples at every run, and no deadline: the machines that run this are shared.
settings.register_profile("skout", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("skout")
