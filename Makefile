# Every target works in a fresh clone: it creates .venv, installs its requirements there, and runs.

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
TWICE := $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder
DEMO_READY := .venv/.ready-demo
TEST_READY := .venv/.ready-test
BENCH_READY := .venv/.ready-bench
DOCS_READY := .venv/.ready-docs

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-pythons coverage check bench docs clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(DEMO_READY)  ## Fit, score and draw on data made in process; writes demo-output/
	MPLBACKEND=Agg $(BIN)/python examples/demo.py demo-output

test: $(TEST_READY)  ## Run the fast tests, file by file in two processes
	$(TWICE) -m "not slow"

test-all: $(TEST_READY)  ## Run all tests, the slow ones included
	$(TWICE)

# One environment per Python, .venv-3.12 and so on: all that pyenv has, else those on the PATH.
PYTHONS ?= $(or $(wildcard $(HOME)/.pyenv/versions/3.1[1-9]*/bin/python),python3.11 python3.12 python3.13 python3.14)
test-pythons:  ## Run the fast tests on each of PYTHONS that is installed
	@set -e; for python in $(PYTHONS); do \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || { echo "$$python is left out: it does not run."; continue; }; \
	  room=.venv-$$version; \
	  [ -x $$room/bin/pip ] || $$python -m venv $$room; \
	  echo "Testing with Python $$version in $$room ..."; \
	  $$room/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[test,plots]"; \
	  $$room/bin/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(TESTS); \
	done

# Tracing all tests would take hours: some cases of each run, six files per process, two processes at a time.
# Compiled kernels cannot be traced: their tests run a second time with the kernels as plain Python.
TRACED := env PYTHONPATH=tests $(BIN)/python -m coverage run -m pytest -q -p few_cases -m "not slow"
LAWS := kernels/test_expected kernels/test_kernels kernels/test_lanes kernels/test_row_solver \
	kernels/test_row_problem losses/test_losses losses/test_mixed \
	losses/test_nonsmooth_losses observations/test_observations io/test_readers model/test_recommend
coverage: $(TEST_READY)  ## Trace some cases of each fast test; list the lines of src/ that are not covered
	$(BIN)/python -m coverage erase
	find tests -name "test_*.py" | sort | xargs -n 6 -P 2 $(TRACED) --cases 3
	$(TRACED) --cases 30 -p plain_kernels $(LAWS:%=tests/%.py)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --fail-under=95

check: $(TEST_READY)  ## Lint, formatting, types and the layer rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src
	$(BIN)/python -m pytest tests/test_layers.py

bench: $(BENCH_READY)  ## Run the benchmarks and print their tables
	$(BIN)/python -m benchmarks

docs: $(DOCS_READY)  ## Build the documentation site, with warnings as errors
	$(BIN)/python -m sphinx -q -n -W --keep-going docs docs/_build/html
	@echo "Open docs/_build/html/index.html in a browser."

clean:  ## Remove caches, build products and demo output; .venv stays
	rm -rf build dist demo-output docs/_build docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* fuzz-findings src/*.egg-info
	find . -name .venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

# A venv whose creation failed may have python but no pip, and would look complete.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
	"rankwise needs Python 3.11 or newer, and $(PYTHON) is %d.%d; name another with `make PYTHON=python3.11`." % v[:2] or 0)'
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

$(DEMO_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing rankwise into .venv ..."
	@$(PIP_INSTALL) -e ".[plots]"
	@touch $@

# The extra `test` includes the requirements of the demo and of the documentation.
$(TEST_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing rankwise and its test tools into .venv ..."
	@$(PIP_INSTALL) -e ".[test,plots]"
	@touch $(DEMO_READY) $(DOCS_READY) $@

$(DOCS_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing rankwise and Sphinx into .venv ..."
	@$(PIP_INSTALL) -e ".[docs,plots]"
	@touch $@

# Libraries for comparison; one that cannot be installed is left out of the tables.
$(BENCH_READY): $(DEMO_READY)
	@echo "Installing the libraries that the benchmarks compare with ..."
	@for peer in libmf cmfrec scikit-surprise; do $(PIP_INSTALL) $$peer || echo "$$peer is left out."; done
	@touch $@
