PYTHON ?= python3
# Another interpreter, as in `make test PYTHON=python3.12`, has an environment of its own.
VENV := .venv$(if $(filter command,$(origin PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What the demo needs is there sooner than what the tests need. Packages are installed without
# bytecode, which Python makes of what is imported: that is a small part of them.
LIGHT := $(VENV)/.light
SITE := $(VENV)/.site
PYTEST_ARGS ?= -n 2 --dist worksteal

# Tests on real data read the folder SKOUT_DATA; without it they are skipped.
ifndef SKOUT_DATA
ifneq ($(wildcard ../shared/data/.),)
export SKOUT_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo test docs release-check dist-check test-core test-wheel test-oldest test-newest record-oldest record-newest models test-ready test-unseeded pytest lint typecheck format bench bench-all bench-gpu reproduce clean

# Targets with two signs are shown first, those with three below them.
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*[^#]## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "and"
	@awk -F ':.*### ' '/^[a-z-]+:.*### / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(LIGHT) ## complete handwritten digits, print a table, write a page
	$(BIN)/skout demo

test: lint ## lint, check types, run all tests and doctests
	@$(MAKE) --no-print-directory -j2 typecheck pytest  # side by side

pytest: $(READY) ### run all tests and doctests (PYTEST_ARGS="-k ridge" for some)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-unseeded: $(READY) ### the tests with other random numbers at each run
	SKOUT_UNSEEDED=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

# Both ends of what pyproject.toml allows, each in an environment of its own. Torch is in neither;
# the oldest versions may have flaws that skout does not reach, and use what others deprecated since.
# An old scikit-learn imports less, so that there the import of skout takes a larger share.
RANGE := test,ann,chem,cli,dask,disk,fast,onnx,plot,serve,table
NETWORKS := predictor.dsokr predictors.end_to_end.EndToEnd
# The file of a class: its dots, but the last, are slashes.
NETWORKS := $(foreach name,$(NETWORKS),--deselect src/skout/$(subst .,/,$(basename $(name))).py::skout.$(name))
WITHOUT := SKOUT_WITHOUT=deep
RANGE_ARGS := --doctest-ignore-import-errors $(NETWORKS) tests src
NOT_OLDEST := --deselect tests/house/test_dependencies.py::test_installed_versions_have_no_known_flaw \
  --deselect tests/house/test_architecture.py::test_import_takes_hardly_longer_than_that_of_scikit_learn

test-oldest: $(VENV)-oldest/.ready ### run the tests on the oldest versions that are supported
	$(WITHOUT) $(VENV)-oldest/bin/python -m pytest $(PYTEST_ARGS) $(RANGE_ARGS) --junitxml=out/oldest.xml \
	  $(NOT_OLDEST) -W ignore::DeprecationWarning

test-newest: $(VENV)-newest/.ready ### run the tests on the newest versions, whatever is pinned
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager -e ".[$(RANGE)]"
	$(WITHOUT) $(VENV)-newest/bin/python -m pytest $(PYTEST_ARGS) $(RANGE_ARGS) --junitxml=out/newest.xml

# Versions and counts of the last such run, also if tests failed: run all of it before.
record-oldest record-newest: record-%:
	$(VENV)-$*/bin/python -m benchmarks.versions $* out/$*.xml

$(VENV)-oldest/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet -c constraints-oldest.txt -e ".[$(RANGE)]"
	touch $@

$(VENV)-newest/.ready:
	$(PYTHON) -m venv $(VENV)-newest
	touch $@

# skout alone, as `pip install skout` gives it: tests that need an extra are skipped.
CORE_TOOLS := hypothesis packaging pytest pytest-xdist
# They look at files of the repository, at figures on real data or at the clock: the same with every extra.
STATIC := $(foreach name,architecture dependencies docs packaging real_data scripts trace types words,--ignore tests/house/test_$(name).py)
STATIC += --ignore tests/apps/tuning/test_tuned_clock.py
CORE_ARGS := --doctest-ignore-import-errors $(NETWORKS) --ignore src/skout/persistence/onnx --ignore src/skout/apps/cli --ignore src/skout/apps/spectra/identify --ignore src/skout/apps/spectra/pools --ignore src/skout/apps/spectra/shipped --ignore src/skout/kernels/molecules.py $(STATIC) tests src docs/getting_started.md docs/coming_from

test-core: $(VENV)-core/.ready ### run the tests that need no extra, where none is installed
	SKOUT_CORE=1 $(VENV)-core/bin/python -m pytest $(PYTEST_ARGS) $(CORE_ARGS)

$(VENV)-core/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-core
	$(VENV)-core/bin/python -m pip install --quiet --no-compile -c constraints.txt -e . $(CORE_TOOLS)
	touch $@

# The wheel as users get it, in a new environment each time; bytecode is made of what is used.
test-wheel: ### build the wheel, install it where nothing else is, and use it
	rm -rf $(VENV)-wheel dist
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --no-compile -c constraints.txt "$$(ls dist/*.whl)[cli]"
	$(VENV)-wheel/bin/python packaging/smoke.py

# What RELEASING.md wants before a tag, without a network: tests, tests without extras, the site, both
# distributions, looked at by those who know what an index wants, and the wheel in other Pythons.
# A name that does not run, such as a shim of pyenv, is left out.
PYTHONS ?= $(shell for v in 3.11 3.12 3.13 3.14; do if python$$v -c "" 2>/dev/null; then command -v python$$v; fi; done)

release-check: $(READY) $(SITE) ### all of RELEASING.md that needs no network (PYTHONS="python3.12 ..." for the wheel)
	$(MAKE) --no-print-directory test test-core docs dist-check
	for python in $(PYTHONS); do $(MAKE) --no-print-directory test-wheel PYTHON=$$python || exit 1; done

dist-check: $(VENV)/.release ### build sdist and wheel, and check both
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m check_wheel_contents dist/*.whl
	$(BIN)/python packaging/contents.py dist

$(VENV)/.release: $(LIGHT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  $$($(BIN)/python packaging/contents.py --group release)
	touch $@

# The same with RDKit: spectra are identified with no model, no pool and no network.
test-ready: ### build the wheel, install it with chemistry, and name the molecules of a spectrum
	rm -rf $(VENV)-ready dist
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv $(VENV)-ready
	$(VENV)-ready/bin/python -m pip install --quiet --no-compile -c constraints.txt "$$(ls dist/*.whl)[chem,cli,fast]"
	$(VENV)-ready/bin/python packaging/ready.py

# Both come with skout, and change seldom: their bytes stay in the history of the repository.
SHIPPED := src/skout/apps/spectra/shipped
models: $(READY) ### the list of molecules, and the model of open spectra, that come with skout
	$(BIN)/python packaging/molecules.py
	$(BIN)/skout models build massbank -o $(SHIPPED)/massbank.skout

lint: $(READY) ### style, format and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

typecheck: $(READY) ### mypy
	$(BIN)/mypy

format: $(READY) ### rewrite the files as lint wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One target for each script of benchmarks/: make bench-graphs BENCH_ARGS=--quick
BENCH := bits machines outofcore ridge structured
BENCH_MORE := bombs budget cluster constants cost graphs metric missing_targets serve
BENCH_GPU := deep gpu large_m machines_gpu
bench: $(BENCH:%=bench-%) ### speed and memory, against scikit-learn and plain NumPy
bench-all: $(BENCH_MORE:%=bench-%) ### the other benchmarks of a CPU (also: bench-NAME)
bench-gpu: $(BENCH_GPU:%=bench-%) ### those that need a GPU
bench-cost: BENCH_ARGS ?= measure
# pool needs the wheel of molsets, versus a commit: BENCH_ARGS="--wheel ..."
bench-%: $(READY)
	$(BIN)/python -m benchmarks.$* $(BENCH_ARGS)

reproduce: $(READY) ### what the papers say, each in minutes (ONLY=table-4.2; REPRODUCE_ARGS=--full for the records)
	$(BIN)/python -m experiments.reproduce $(if $(ONLY),--only "$(ONLY)") $(REPRODUCE_ARGS)

docs: $(SITE) ## the site, in docs/_build/html: warnings are errors, links are checked
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html

clean: ### remove the environment, caches and outputs
	rm -rf docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf .venv .venv-* build dist out skout-demo.html skout-demo.png .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(LIGHT): EXTRAS = cli,plot
$(SITE): EXTRAS = docs
$(READY): EXTRAS = test,ann,chem,cli,dask,deep,disk,fast,onnx,plot,serve,table,text

$(LIGHT) $(READY) $(SITE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "skout needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing skout[$(EXTRAS)] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $(LIGHT) $@
