.PHONY: demo test quick lint docs lock newest floors bench fuzz clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Processes that run tests. Integration tests often wait: with `make test WORKERS=3` others run meanwhile on two cores.
WORKERS ?= auto

# Everything is installed from a lock with hashes: the same versions on every day. `make lock` writes these files, and
# the constraints of the demo's build.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED  := $(INSTALL) --require-hashes --no-deps --only-binary :all: --requirement

$(VENV)/.demo: requirements/demo.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gpuforge needs Python 3.11 or newer; '$(PYTHON)' is older. Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(LOCKED) requirements/demo.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q gpuforge   # as pip does with what is not editable
	@touch $@

$(VENV)/.installed: requirements/develop.txt $(VENV)/.demo
	$(LOCKED) requirements/develop.txt
	@touch $@

# The main job, for real: a CUDA 13 toolkit from PyPI, recipes/saxpy built with it, and the proof.
demo: $(VENV)/.demo
	$(BIN)/gpuforge build recipes/saxpy --cuda 13 --python $$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])') --output dist/demo
	@rm -rf $(VENV)/demo
	@$(INSTALL) --no-deps --target $(VENV)/demo dist/demo/saxpy_cu13-*.whl
	@echo; echo "The wheel, installed and run here:"; PYTHONPATH=$(VENV)/demo $(BIN)/python -P -m saxpy

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# Unit tests without those that wait, start programs, compile, or read much (the mark `thorough`): 49 s on two
# cores. Python and pytest may keep what they compile: where the environment forbids it, each worker takes 7 s longer.
# Workers take tests from each other: groups of unit tests only spare repeated work, less than one that waits loses.
quick: $(VENV)/.installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/unit -n $(WORKERS) --dist worksteal -m "not thorough" --hypothesis-profile=quick

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=bench:scripts:tests/unit:tests/integration $(BIN)/mypy --ignore-missing-imports bench scripts
	if [ "$$(uname -m)" = x86_64 ]; then $(BIN)/shellcheck --shell=sh containers/debian/*.sh containers/debian/manylinux-interpreters && $(BIN)/shellcheck --shell=sh --exclude=SC2034,SC2086,SC2046,SC2154 gpuforge/actions/*.sh; fi  # PyPI has no other

# The pages as a site, in dist/site. A link or an anchor that leads nowhere is an error.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

.venv-uv/bin/uv:
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check uv

# Without UPGRADE=--upgrade only what changed in pyproject.toml changes here. hatchling makes the editable install.
# The last line checks that there is a wheel of everything. uv reads no settings of this machine.
COMPILE := UV_CUSTOM_COMPILE_COMMAND='make lock' .venv-uv/bin/uv pip compile --quiet --no-config
LOCK    := $(COMPILE) --universal --python-version 3.11 --generate-hashes $(UPGRADE) --output-file
lock: .venv-uv/bin/uv
	echo hatchling | $(LOCK) requirements/demo.txt pyproject.toml -
	$(LOCK) requirements/develop.txt --constraint requirements/demo.txt --extra test --extra lint --extra docs pyproject.toml
	printf '%s\n' scikit-build-core cmake ninja | $(LOCK) recipes/saxpy/build-constraints.txt -
	for python in 3.11 3.12 3.13 3.14; do for machine in x86_64 aarch64; do \
	  $(COMPILE) --no-deps --only-binary :all: --python-version $$python --python-platform $$machine-manylinux_2_28 \
	    requirements/demo.txt requirements/develop.txt >/dev/null || exit; \
	done; done

# The unit tests with the newest and with the oldest releases that pyproject.toml allows, and lint with the newest.
newest floors: .venv-uv/bin/uv
	.venv-uv/bin/uv venv --quiet --clear --python $(PYTHON) .venv-$@
	.venv-uv/bin/uv pip install --quiet --python .venv-$@ $(if $(filter floors,$@),--resolution lowest-direct --editable '.[test]',--editable '.[test,lint,docs]')
	.venv-$@/bin/python -m pytest tests/unit -n $(WORKERS) --dist loadgroup
	$(if $(filter newest,$@),touch .venv-$@/.demo .venv-$@/.installed && $(MAKE) lint VENV=.venv-$@)

# WHEELS=full measures 28 wheels of 3 GB together; or name folders with your own.
bench: $(VENV)/.installed
	$(INSTALL) pydistcheck cibuildwheel
	@$(BIN)/python -m compileall -q gpuforge
	$(BIN)/python bench/run.py $(WHEELS)
	$(BIN)/gpuforge images build bookworm bookworm-test || true  # what needs them is left out
	$(BIN)/python bench/builds.py

# SECONDS for each of the readers' targets (tests/unit/fuzz_targets.py); what fails is written to a file.
fuzz: $(VENV)/.installed
	$(INSTALL) atheris
	$(BIN)/python bench/fuzz.py all $(or $(SECONDS),60)

clean:
	rm -rf $(VENV) .venv-uv .venv-newest .venv-floors dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
