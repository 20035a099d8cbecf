.PHONY: demo test lint bench clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gpuforge needs Python 3.11 or newer; '$(PYTHON)' is older. Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test,lint]'
	@touch $@

# The main job, for real: a CUDA 13 toolkit from PyPI, recipes/saxpy built with it, and the proof.
demo: $(VENV)/.installed
	$(BIN)/gpuforge build recipes/saxpy --cuda 13 --output dist
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps --target $(VENV)/demo dist/saxpy_cu13-*.whl
	@echo; cd $(VENV)/demo && PYTHONPATH=. ../../$(BIN)/python -m saxpy

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
