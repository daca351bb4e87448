# `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread per process and passive waiting: a spinning OpenMP thread can make two threads slower than one.
export OMP_WAIT_POLICY  ?= PASSIVE
export OMP_NUM_THREADS  ?= 1
# Optional real data and LPIPS weights; tests that need them skip with the reason where they are absent.
ifneq ($(wildcard ../shared/data),)
export LEAKSCOPE_DATA    ?= $(abspath ../shared/data)
endif
ifneq ($(wildcard ../shared/weights),)
export LEAKSCOPE_WEIGHTS ?= $(abspath ../shared/weights)
endif

.PHONY: demo install test test-all coverage lint bench example-flower clean

$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(VENV)/.full: $(VENV)/.core
	$(PIP) -e '.[dp,flower,ray,diffusion,web,tune,dev]'
	@touch $@

install: $(VENV)/.full

demo: $(VENV)/.core
	$(BIN)/leakscope audit --n 10 --out runs/demo

lint: $(VENV)/.full
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

test: lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not long" --durations=10

# What a release runs: also what is long by nature (a wheel, notebooks, Ray clusters).
test-all: lint
	$(BIN)/pytest -n 2 --dist worksteal --durations=10

coverage: $(VENV)/.full
	$(BIN)/pytest -n 2 --dist worksteal -m "not long" --cov=leakscope --cov-report=term:skip-covered

# What `leakscope list` shows, from the registries; a test says when it is stale.
catalogue: $(VENV)/.core
	$(BIN)/python -m leakscope.cli.catalogue

bench: $(VENV)/.full
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/runner.py

example-flower: $(VENV)/.full
	$(BIN)/python examples/flower/run.py

clean:
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache
