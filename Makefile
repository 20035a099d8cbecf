.PHONY: demo test quick lint bench fuzz clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Processes that run tests. Integration tests often wait: with `make test WORKERS=3` others run meanwhile on two cores.
WORKERS ?= auto

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gpuforge needs Python 3.11 or newer; '$(PYTHON)' is older. Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test,lint]'
	@$(BIN)/python -m compileall -q gpuforge   # as pip does with what is not editable
	@touch $@

# The main job, for real: a CUDA 13 toolkit from PyPI, recipes/saxpy built with it, and the proof.
demo: $(VENV)/.installed
	$(BIN)/gpuforge build recipes/saxpy --cuda 13 --python $$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])') --output dist/demo
	@rm -rf $(VENV)/demo
	@$(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/demo dist/demo/saxpy_cu13-*.whl
	@echo; echo "The wheel, installed and run here:"; PYTHONPATH=$(VENV)/demo $(BIN)/python -P -m saxpy

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# Unit tests without those that wait, start programs, compile, or read much (the mark `thorough`): 40 s on two
# cores. Python and pytest may keep what they compile: where the environment forbids it, each worker takes 7 s longer.
quick: $(VENV)/.installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/unit -n $(WORKERS) --dist loadgroup -m "not thorough" --hypothesis-profile=quick

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=bench:scripts:tests/unit:tests/integration $(BIN)/mypy --ignore-missing-imports bench scripts
	$(BIN)/shellcheck --shell=sh containers/debian/*.sh containers/debian/manylinux-interpreters

# WHEELS=full measures 28 wheels of 3 GB together; or name folders with your own.
bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet pydistcheck cibuildwheel
	@$(BIN)/python -m compileall -q gpuforge
	$(BIN)/python bench/run.py $(WHEELS)
	$(BIN)/gpuforge images build bookworm bookworm-test || true  # what needs them is left out
	$(BIN)/python bench/builds.py

# SECONDS for each of the readers' targets (tests/unit/fuzz_targets.py); what fails is written to a file.
fuzz: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet atheris
	$(BIN)/python bench/fuzz.py all $(or $(SECONDS),60)

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
