# The commands of the README. Everything that they need is installed into $(VENV), nothing outside it.

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
PIP := $(RUN)/python -m pip install --quiet --disable-pip-version-check
DEMO ?= runs/demo
BENCH ?= runs/bench
FUZZ_SECONDS ?= 60

.PHONY: help install demo test bench faults fuzz audit lock check clean

help:
	@echo "make demo    condense the built-in data set, evaluate it, and open a page of the result (4 minutes)"
	@echo "make test    run the tests (6 minutes at most)"
	@echo "make bench   measure what docs/performance.md claims; a table and JSON go to $(BENCH) (5 minutes)"
	@echo "make faults  kill runs, fill disks and soak for longer than the tests do (about 20 minutes)"
	@echo "make fuzz    read a million broken files or more (FUZZ_SECONDS of each of 23 kinds)"
	@echo "make audit   look up known vulnerabilities of the pinned dependencies (needs the network)"
	@echo "make lock    write the hashes of the pinned dependencies anew (needs the network)"
	@echo "make check   formatter, linter, types, architecture"
	@echo "make clean   remove the environment, the demo and the measurements"

install: $(VENV)/.installed

# Three steps, because pip checks all hashes of a command or none, and torch has another file on every index that
# builds it. The first runs no package's code; the last may fetch nothing, so what the lock lacks is an error.
$(VENV)/.installed: pyproject.toml constraints.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PRISM needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes --only-binary :all: -r requirements-dev.txt
	$(PIP) -c constraints.txt torch
	$(PIP) --no-index --no-build-isolation -e '.[dev]'
	@touch $@

demo: install
	@PRISM=$(RUN)/prism sh examples/demo.sh $(DEMO)

test: install
	OMP_NUM_THREADS=1 $(RUN)/python -m pytest -n 2

bench: install
	$(RUN)/python -m benchmarks --output $(BENCH)

faults: install
	OMP_NUM_THREADS=1 PRISM_FAULTS=long $(RUN)/python -m pytest -n 2 tests/faults

fuzz: install
	$(PIP) --no-build-isolation -c constraints.txt -e '.[fuzz]'
	OMP_NUM_THREADS=1 $(RUN)/python tests/faults/fuzz.py $(FUZZ_SECONDS)

audit: install
	$(PIP) --no-build-isolation -c constraints.txt -e '.[audit]'
	$(RUN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt

# Without the install, which would want the hashes of a new dependency before it can ask for them.
lock:
	$(PYTHON) -m venv $(VENV)
	$(PIP) uv
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(RUN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade \
		--no-deps --generate-hashes --no-annotate --no-emit-package torch -o requirements-dev.txt constraints.txt

check: install
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/pyright
	$(RUN)/python -m pytest tests/test_architecture.py

clean:
	rm -rf $(VENV) $(DEMO) $(BENCH)
