# `make demo` and `make test` each work from nothing on a machine with Python 3.11 and make.
PYTHON ?= python3.11
BIN := .venv/bin
LIGHT := .venv/.light
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test explore lint suite bench docs

help:
	@echo "make demo    install what the main job needs, if it is missing, and run it on built-in defaults"
	@echo "make test    install everything, if it is missing, then lint and run the whole test suite"
	@echo "make explore run the property tests on inputs that are new each time, not those of make test"
	@echo "make lint    style, types, the import contract, and code that nothing reaches"
	@echo "make bench   measure voile beside its peers; writes results/*.json"
	@echo "make docs    build the documentation into site/"

# One environment in two steps: what the main job needs, then everything else on top of it. Each is
# made once, and again only when what it is made from changes. Stamps are written last, so an
# interrupted installation is never mistaken for a finished one; nothing is taken out again, so
# neither command undoes what the other has installed.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

$(LIGHT): pyproject.toml constraints.txt
	@echo "voile: what the main job needs goes into .venv (0.95 GB, under a minute, once)"
	@$(PYTHON) -m venv .venv
	@$(INSTALL) --upgrade pip
	@$(INSTALL) -e '.[demo]'
	@$(BIN)/python -m pip check
	@touch $(LIGHT)
	@echo "voile: ready"

# torch comes in a CPU build and in one with gigabytes of CUDA libraries, which nothing here uses:
# `PIP_EXTRA_INDEX_URL=... make test` with PyTorch's index of CPU builds takes the small one.
$(READY): $(LIGHT)
	@echo "voile: everything else goes into .venv (3.1 GB with the CPU build of torch, some minutes, once)"
	@$(INSTALL) -e '.[all,dev]'
	@$(BIN)/python -m pip check
	@touch $(READY)
	@echo "voile: environment ready"

demo: $(LIGHT)
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
	@echo "voile: what nothing reaches"
	@$(BIN)/python -m tools.reachability

suite: $(READY)
	@echo "voile: tests"
	@$(BIN)/pytest -m "not deployment" --numprocesses 2 --dist worksteal --durations 20
	@echo "voile: deployments, which run alone"
	@$(BIN)/pytest -m deployment --durations 10

# Each finding is kept in .hypothesis and tried first next time. Write it above its test as an
# `@example(...)`: then `make test` tries it everywhere, every time.
explore: $(READY)
	@$(BIN)/pytest -m hypothesis --hypothesis-profile explore --numprocesses 2 --dist worksteal

bench: $(READY)
	@$(BIN)/python -m benchmarks

docs: $(READY)
	@$(BIN)/mkdocs build --strict
