# The commands of the README. Everything that they need is installed into $(VENV), nothing outside it.

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
# What is never imported need not be compiled: 27 seconds of CPU in place of 70.
PIP := $(RUN)/python -m pip install --quiet --disable-pip-version-check --no-compile
DEMO ?= runs/demo
BENCH ?= runs/bench
FUZZ_SECONDS ?= 60
DIST := build/dist

.PHONY: help install demo test bench bench-accuracy faults fuzz audit lock check docs dist clean

help:
	@echo "make demo    condense the built-in data set, evaluate it, and open a page of the result (3 to 11 minutes)"
	@echo "make test    run the tests (4 minutes on 2 CPU cores, more without AVX-512)"
	@echo "make bench   measure what docs/performance.md claims; a table and JSON go to $(BENCH) (9 minutes)"
	@echo "make bench-accuracy  race the peers' loop to the same accuracy; a plot and JSON go to $(BENCH) (15 minutes)"
	@echo "make faults  kill runs, fill disks and soak for longer than the tests do (about 20 minutes)"
	@echo "make fuzz    read broken sets, stores and results (FUZZ_SECONDS of each kind)"
	@echo "make audit   look up known vulnerabilities of the pinned dependencies (needs the network)"
	@echo "make lock    write the hashes of the pinned dependencies anew (needs the network)"
	@echo "make check   formatter, linter, types, architecture, and the size of the house"
	@echo "make docs    build docs/ as a site, build/docs/index.html, and open its pages in Chromium"
	@echo "make dist    build wheel and sdist, and try the wheel in an environment of its own"
	@echo "make clean   remove the environment, the demo, the measurements and what was built"

install: $(VENV)/.installed

# Three steps, because pip checks all hashes of a command or none, and torch has another file on every index that
# builds it. The first runs no package's code; the last may fetch nothing, so what the lock lacks is an error.
$(VENV)/.runs: pyproject.toml constraints.txt requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PRISM needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes --only-binary :all: -r requirements.txt
	$(PIP) -c constraints.txt torch
	$(PIP) --no-index --no-build-isolation -e .
	@touch $@

# What the tests need beside.
$(VENV)/.installed: $(VENV)/.runs requirements-dev.txt
	$(PIP) --require-hashes --only-binary :all: -r requirements-dev.txt
	$(PIP) --no-index --no-build-isolation -e '.[dev]'
	@touch $@

# The tools of docs and dist, which no test needs.
$(VENV)/.release: $(VENV)/.installed constraints-release.txt requirements-release.txt
	$(PIP) --require-hashes --no-deps --only-binary :all: -r requirements-release.txt
	@touch $@

demo: $(VENV)/.runs
	@PRISM=$(RUN)/prism sh examples/demo.sh $(DEMO)

test: install
	OMP_NUM_THREADS=1 $(RUN)/python -m pytest -n 2

bench: install
	$(RUN)/python -m benchmarks --output $(BENCH)

bench-accuracy: install
	$(RUN)/python -m benchmarks.accuracy --output $(BENCH)/accuracy.json

faults: install
	OMP_NUM_THREADS=1 PRISM_FAULTS=long $(RUN)/python -m pytest -n 2 tests/faults

fuzz: install
	$(PIP) --no-build-isolation -c constraints.txt -e '.[fuzz]'
	for kind in set store result; do \
	    OMP_NUM_THREADS=1 $(RUN)/python tests/faults/fuzz.py $$kind $(FUZZ_SECONDS) || exit 1; done

audit: install
	$(PIP) --no-build-isolation -c constraints.txt -e '.[audit]'
	$(RUN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt

LOCK := UV_CUSTOM_COMPILE_COMMAND="make lock" $(RUN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade \
	--no-deps --generate-hashes --no-annotate

# Without the install, which would want the hashes of a new dependency before it can ask for them.
lock:
	$(PYTHON) -m venv $(VENV)
	$(PIP) uv
	$(LOCK) --no-emit-package torch -o requirements-dev.txt constraints.txt
	printf 'hatchling\neditables\n' | $(RUN)/uv pip compile --quiet --universal --python-version 3.11 --no-header \
		--no-annotate -c constraints.txt pyproject.toml - | grep -Ev '^(torch|triton|nvidia|cuda)' | $(LOCK) -o requirements.txt -
	$(LOCK) -o requirements-release.txt constraints-release.txt

check: install
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/pyright
	$(RUN)/python -m pytest tests/test_architecture.py
	$(RUN)/python tests/budgets.py

# Not --quiet, which would not count warnings. NO_MKDOCS_2_WARNING: the theme would speak of its successor each time.
docs: $(VENV)/.release
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --config-file website/mkdocs.yml
	$(RUN)/python -m pytest tests/built_site.py

# The sdist gives the same wheel, and the wheel runs where nothing but Python was: it and all that it needs come
# without a compiler. `python -I` sees neither this folder nor $PYTHONPATH.
dist: $(VENV)/.release
	rm -rf dist $(DIST)
	$(RUN)/python -m hatchling build -d dist
	$(RUN)/twine check --strict dist/*
	$(RUN)/python -m pip wheel --quiet --no-deps --no-index --no-build-isolation -w $(DIST) dist/*.tar.gz
	cmp dist/*.whl $(DIST)/*.whl
	$(PYTHON) -m venv $(DIST)/venv
	$(DIST)/venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
		-c constraints.txt dist/*.whl
	$(DIST)/venv/bin/prism --help >/dev/null
	cd $(DIST) && venv/bin/python -I $(CURDIR)/tests/ten_lines.py $(CURDIR)/README.md

clean:
	rm -rf $(VENV) $(DEMO) $(BENCH) build dist
