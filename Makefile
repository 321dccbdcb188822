# `make demo` and `make test` work from a bare clone; everything lands in .venv.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test learning reproduce-smoke stress cluster benchmark lint lock clean

demo: .venv/ready
	$(BIN)/personae learn ct8 --method mask-blc --out runs/demo --overwrite

test: .venv/ready lint
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile -m "not learning and not stress and not smoke and not cluster"

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Long training runs that check what agents learn, not only how.
learning: .venv/ready
	$(BIN)/pytest --optimise -m learning

# A shortened reproduction of the paper's CT8 table; minutes on two cores.
reproduce-smoke: .venv/ready
	$(BIN)/pytest --optimise -m smoke

# Runs killed with kill -9 at random moments, at least 20 of them.
stress: .venv/ready
	$(BIN)/pytest -m stress

# Runs and actors on a Ray cluster of two nodes on this machine, some of which are killed.
cluster: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check 'ray[client]>=2.40'
	$(BIN)/pytest --optimise -m cluster

# Speed, beside a PyTorch program in the same run; needs torch for that (docs/performance.md).
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
