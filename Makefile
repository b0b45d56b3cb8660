# One virtual environment for everything; `make demo` and `make test` need only make and Python 3.11 or later.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test test-again test-fast test-faults test-redis fuzz lint docs benchmark clean

demo: $(STAMP)
	$(BIN)/optimist demo

# Two tests at a time: much of a test's time is waiting for processes to start, to stop and to answer.
test: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadscope

# The tests that failed last, one at a time; an error if there are none.
test-again: $(STAMP)
	$(BIN)/pytest --last-failed --last-failed-no-failures none

test-fast: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadscope -m "not faults"

# The store's tests on Redis 6.2, 7.0 (on PATH, or OPTIMIST_TEST_REDIS=/path/to/redis-server), and clusters.
test-redis: $(STAMP)
	OPTIMIST_TEST_SERVERS=6.2,7.0,cluster,7.0-cluster $(BIN)/pytest tests/store

# All tests that kill real processes; docs/reliability.md describes the long runs.
test-faults: $(STAMP)
	$(BIN)/pytest -m faults

# A long run of the fuzzers: $(CASES) bodies for each of three paths, and a tenth as many requests for each operation of
# the API, for one minute per operation at most (OPTIMIST_FUZZ_SECONDS).
CASES ?= 100000
fuzz: $(STAMP)
	OPTIMIST_FUZZ_CASES=$(CASES) $(BIN)/pytest tests/service/test_fuzz.py --timeout 0 --log-cli-level INFO

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r service clients deploy docs/generate

# Generate the reference pages from the code.
docs: $(STAMP)
	$(BIN)/python docs/generate

benchmark: $(STAMP)
	$(BIN)/python benchmarks/rounds.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
