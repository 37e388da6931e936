PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip reads the constraints, so every machine installs the same versions.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: demo test check docs bench-tables clean

demo: $(VENV)/.demo
	$(BIN)/unlabel demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -q docs docs/_build

bench-tables: $(VENV)/.demo
	$(BIN)/python benchmarks/large_table.py
	$(BIN)/python benchmarks/large_evaluation.py

clean:
	rm -rf $(VENV) demo docs/_build

# A stamp a purpose: what is installed already is not installed again.
$(VENV)/.demo: EXTRA := cli
$(VENV)/.test: EXTRA := test
$(VENV)/.check: EXTRA := check
$(VENV)/.docs: EXTRA := docs
$(VENV)/.demo $(VENV)/.test $(VENV)/.check $(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/.venv
	@echo "Installing unlabel[$(EXTRA)] into $(VENV) ..."
	@$(INSTALL) '.[$(EXTRA)]'
	@touch $@

$(VENV)/.venv:
	@$(PYTHON) -m venv $(VENV)
	@touch $@
