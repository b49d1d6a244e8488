# `make demo` and `make test` each work from nothing on a machine with Python 3.11 and make.
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint suite bench docs

help:
	@echo "make demo    create the environment if needed, then run the main job on built-in defaults"
	@echo "make test    create the environment if needed, then lint and run the whole test suite"
	@echo "make lint    style, types and the import contract"
	@echo "make bench   measure voile beside its peers; writes results/*.json"
	@echo "make docs    build the documentation into site/"

# Created once; made anew only when what it is made from changes. The stamp is written last, so an
# interrupted installation is never mistaken for a finished one.
$(READY): pyproject.toml constraints.txt
	@echo "voile: creating the environment in .venv (about 2.6 GB, a few minutes, once)"
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@$(BIN)/python -m pip check
	@touch $(READY)
	@echo "voile: environment ready"

demo: $(READY)
	@$(BIN)/voile demo

test: lint suite

lint: $(READY)
	@echo "voile: style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@echo "voile: types"
	@$(BIN)/mypy
	@echo "voile: who may import whom"
	@$(BIN)/lint-imports

suite: $(READY)
	@echo "voile: tests"
	@$(BIN)/pytest --numprocesses 2 --dist worksteal --durations 20

bench: $(READY)
	@$(BIN)/python -m benchmarks

docs: $(READY)
	@$(BIN)/mkdocs build --strict
