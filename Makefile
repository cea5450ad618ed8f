# Needs Python >= 3.11 with venv, git and make; everything else goes into $(VENV).
#   make demo      one command from a bare checkout to a report, on the screen and as demo.html
#   make test      core tests; make test-all adds long ones and full fuzz counts
#   make check     style, types, import rules, documentation

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest -n $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help demo install dev test test-all test-extra check docs readme bench clean

help:
	@sed -n 's/^#   //p' Makefile

# Stamps: an install is repeated only when pyproject.toml is newer.
$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 with venv found; set PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.python
	$(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.python
	$(PIP) install --editable '.[dev]'
	@touch $(VENV)/.installed $@

install: $(VENV)/.installed

dev: $(VENV)/.installed-dev

demo: $(VENV)/.installed
	$(BIN)/foretrain simulate llama-3.1-405b --on dgx-h100 --chips 16384 --html demo.html

test: $(VENV)/.installed-dev
	$(PYTEST) -m "not extra and not accelerator"

test-all: $(VENV)/.installed-dev
	FORETRAIN_FUZZ=full $(PYTEST) -m "not extra and not accelerator"
	FORETRAIN_FUZZ=full $(BIN)/python -m pytest -m "extra or accelerator"

# One process: some of these tests measure time.
test-extra: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "extra or accelerator"

check: $(VENV)/.installed-dev docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/.installed-dev
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

# After predictions have moved: the output shown in the README.
readme: $(VENV)/.installed
	$(BIN)/python docs/update_readme.py

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info demo.html
