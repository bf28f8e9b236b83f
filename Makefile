# The commands of the README. Everything that they need is installed into $(VENV), nothing outside it.

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
DEMO ?= runs/demo
BENCH ?= runs/bench
FUZZ_SECONDS ?= 60

.PHONY: help install demo test bench faults fuzz audit check clean

help:
	@echo "make demo    condense the built-in data set, evaluate it, and open a page of the result (3 minutes)"
	@echo "make test    run the tests (6 minutes at most)"
	@echo "make bench   measure what docs/performance.md claims; JSON goes to $(BENCH) (5 minutes)"
	@echo "make faults  kill runs, fill disks and soak for longer than the tests do (about 20 minutes)"
	@echo "make fuzz    read a million broken files or more (FUZZ_SECONDS of each of 16 kinds)"
	@echo "make audit   look up known vulnerabilities of the pinned dependencies (needs the network)"
	@echo "make check   formatter, linter, types, architecture"
	@echo "make clean   remove the environment, the demo and the measurements"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PRISM needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
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
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	OMP_NUM_THREADS=1 $(RUN)/python tests/faults/fuzz.py $(FUZZ_SECONDS)

audit: install
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -e '.[audit]'
	$(RUN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt

check: install
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/pyright
	$(RUN)/python -m pytest tests/test_architecture.py

clean:
	rm -rf $(VENV) $(DEMO) $(BENCH)
