# One virtual environment for everything; `make demo` and `make test` need nothing but Python 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test test-again test-fast test-faults test-redis fuzz lint docs benchmark clean

demo: $(STAMP)
	$(BIN)/optimist demo

# Two at a time: much of a test's time is waiting for processes to start, to stop and to answer.
test: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadscope

# Those that failed last, one after the other; a failure if there are none.
test-again: $(STAMP)
	$(BIN)/pytest --last-failed --last-failed-no-failures none

test-fast: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadscope -m "not faults"

# The store's tests on servers of its own: Redis 6.2, 7.0 (on PATH, or OPTIMIST_TEST_REDIS=/path/to/redis-server), clusters.
test-redis: $(STAMP)
	OPTIMIST_TEST_SERVERS=6.2,7.0,cluster,7.0-cluster $(BIN)/pytest tests/store

# Everything that kills real processes; the long runs are in docs/reliability.md.
test-faults: $(STAMP)
	$(BIN)/pytest -m faults

# The fuzzers' long run: as many bodies for each of three paths, and a tenth of it for each operation of the API, for a
# minute at most each (OPTIMIST_FUZZ_SECONDS).
CASES ?= 100000
fuzz: $(STAMP)
	OPTIMIST_FUZZ_CASES=$(CASES) $(BIN)/pytest tests/service/test_fuzz.py --timeout 0 --log-cli-level INFO

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r service clients deploy docs/generate

# The reference pages, from the code they describe.
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
