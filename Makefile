# `make demo` and `make test` need nothing but make and a Python from 3.11 on, and set up one virtual environment.
# The first one that fits is taken. The embedded Redis has wheels for 3.11 and 3.12; any other needs redis-server on PATH.
PYTHON ?= $(shell for python in python3.11 python3.12 python3 python3.13 python3.14 python; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# The URL of an index with CPU builds of torch (see the install page of PyTorch); without it, pip may install CUDA, too.
TORCH_INDEX ?=
VENV ?= .venv
BIN = $(VENV)/bin
DEMO = $(VENV)/.installed-demo
TEST = $(VENV)/.installed-test
DEV = $(VENV)/.installed-dev

# Without bytecode each of the many processes would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-full test-fast test-faults test-redis interleave coverage fuzz lint size pictures site benchmark clean

demo: $(DEMO)
	$(BIN)/optimist demo

# Three at a time on two cores: tests often wait for processes to start, stop and answer.
PARALLEL = -n 3 --dist worksteal

test: $(TEST)
	$(BIN)/pytest $(PARALLEL) -m "not long"

# The tests that take many seconds each: things are killed, the whole demo is run, memories and disks are filled.
test-long: $(DEV)
	$(BIN)/pytest $(PARALLEL) -m long

# All tests, with many more examples of each property.
test-full: $(DEV)
	$(BIN)/pytest $(PARALLEL) --hypothesis-profile full --timeout 1800

# Dispatchers on one experiment in one thread, from $(SEEDS) seeds; docs/reliability.md says what is simulated.
SEEDS ?= 50
STEPS ?= 2000
FIRST ?= 0
interleave: $(TEST)
	$(BIN)/python -m tests.interleavings --seeds $(SEEDS) --first $(FIRST) --steps $(STEPS)

test-fast: $(TEST)
	$(BIN)/pytest $(PARALLEL) -m "not faults and not long"

# The store's tests on Redis 6.2, 7.0 (on PATH, or OPTIMIST_TEST_REDIS=/path/to/redis-server), and clusters.
test-redis: $(TEST)
	OPTIMIST_TEST_SERVERS=6.2,7.0,cluster,7.0-cluster $(BIN)/pytest tests/store

# All tests that kill real processes; docs/reliability.md describes the long runs.
test-faults: $(DEV)
	$(BIN)/pytest -m faults

# What the tests of single rooms run of each room, in this process and in services that they start; fails below a floor.
# Whether a test passes is for the commands above.
WHOLE = system sdk/embedders
coverage: $(DEV)
	-$(BIN)/pytest $(PARALLEL) -p no:cacheprovider -p pytest_cov --cov --cov-report= $(WHOLE:%=--ignore=tests/%)
	$(BIN)/python benchmarks/covered.py

# A long run of the fuzzers: $(CASES) bodies for each of three paths, and a tenth as many requests for each operation of
# the API, for one minute per operation at most (OPTIMIST_FUZZ_SECONDS).
CASES ?= 100000
fuzz: $(DEV)
	OPTIMIST_FUZZ_CASES=$(CASES) $(BIN)/pytest tests/system/http/test_fuzz.py --timeout 0 --log-cli-level INFO

# Files, lines of code, docstrings and comments, and words of documents.
size: $(DEV)
	$(BIN)/python benchmarks/size.py

lint: $(DEV)
	$(BIN)/ruff check --no-cache .  # the order of imports depends on folders, which the cache does not watch
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r service clients deploy docs/generate

# The pictures of the README and the gallery: runs demos, and the dashboard in a browser.
pictures: $(DEV)
	$(BIN)/python docs/generate/pictures.py

# The documents as a site, in site/, with the reference from the code; a broken link is an error. `optimist docs` shows it.
site: $(DEV)
	$(BIN)/python docs/generate

benchmark: $(DEV)
	$(BIN)/python benchmarks/waiting.py

$(VENV)/bin/pip:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv found. Install one, or name it by PYTHON=/path/to/python:"; \
		echo "  Debian, Ubuntu: apt install python3 python3-venv"; \
		echo "  Fedora:         dnf install python3.12"; \
		echo "  macOS:          brew install python@3.12"; exit 1; } >&2
	$(PYTHON) -m venv $(VENV)

# One of the extras `demo`, `test` and `dev`, each of which includes those before it. Few of their modules are ever used,
# and these are compiled then: compiling all of them takes longer than everything else.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH_INDEX:%=--extra-index-url %) \
		--no-compile -c constraints.txt -e '.[$*]'
	touch $@ $(if $(filter dev,$*),$(TEST))

clean:
	rm -rf $(VENV) build site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
