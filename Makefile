# `make demo` and `make test` work from a bare clone; all packages go to .venv.

PYTHON ?= python3
BIN := .venv/bin

# A worker that has run out of tests takes over those that wait at another. Workers
# share the runs in tests/conftest.py.
PARALLEL := -n auto --maxprocesses 4 --dist worksteal
SLOWEST := --durations=25 --durations-min=1
# Markers of tests that have a target of their own below.
APART := learning or smoke or stress or cluster

.PHONY: demo fast test learning reproduce-smoke stress cluster benchmark lint lock clean

demo: .venv/ready
	$(BIN)/personae learn ct8 --method mask-blc --out runs/demo --overwrite

# Unit tests, for use while editing: all but those that are marked as slow.
fast: lint
	$(BIN)/pytest $(PARALLEL) $(SLOWEST) -m "not (slow or $(APART))"

test: lint
	$(BIN)/pytest $(PARALLEL) $(SLOWEST) -m "not ($(APART))"

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Long training runs, which check returns.
learning: .venv/ready
	$(BIN)/pytest --optimise -m learning

# A shortened reproduction of the paper's CT8 table; minutes on two cores.
reproduce-smoke: .venv/ready
	$(BIN)/pytest --optimise -m smoke

# At least 20 runs killed with kill -9 at random times, and every method stopped and
# resumed with every learner.
stress: .venv/ready
	$(BIN)/pytest $(PARALLEL) $(SLOWEST) -m stress

# Runs and actors on a Ray cluster of two local nodes, some of which are killed.
cluster: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check 'ray[client]>=2.40'
	$(BIN)/pytest --optimise -m cluster

# Speed beside a PyTorch program, if torch is installed (docs/performance.md).
benchmark: .venv/ready
	$(BIN)/python benchmarks/speed.py

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Personae needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

# Names, versions and hashes for every supported Python, from the ranges in pyproject.toml.
lock:
	$(PYTHON) -m pip install --quiet uv
	$(PYTHON) -m uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		-o requirements.lock

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
