PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip reads the constraints, so every machine installs the same versions.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --editable

FUZZ_TARGETS := filters csv npy npz parquet summaries
SECONDS_EACH := 30

.PHONY: demo test test-core test-lowest test-wheel fuzz check docs bench bench-tables clean

demo: $(VENV)/.demo
	$(BIN)/unlabel demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The core alone, with nothing installed but what it runs on.
test-core: .venv-core/.core
	.venv-core/bin/python -m pytest tests/core

# The same on the lowest versions that are allowed.
test-lowest: .venv-lowest/.core
	.venv-lowest/bin/python -m pytest -q tests/core

# What is shipped, installed into an environment with nothing else, and used.
test-wheel:
	rm -rf .venv-wheel dist
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip wheel -qq --disable-pip-version-check --no-deps --wheel-dir dist .
	.venv-wheel/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt dist/*.whl
	cd .venv-wheel && bin/python ../.ci/smoke.py

# Every target for its time; what fails is left in fuzz-failures/, and the others still run.
fuzz: $(VENV)/.fuzz
	@failed=0; for target in $(FUZZ_TARGETS); do \
		echo "Fuzzing $$target ..."; \
		PYTHONPATH=tests/helpers $(BIN)/python tests/fuzz $$target -max_total_time=$(SECONDS_EACH) \
			$(if $(SEED),-seed=$(SEED)) || failed=1; \
	done; exit $$failed

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -q docs docs/_build

# Every method on a small set: two minutes. The paper's own experiments need a GPU.
bench: $(VENV)/.bench
	$(BIN)/unlabel bench run --suite quick --out results
	$(BIN)/unlabel bench tables results

bench-tables: $(VENV)/.demo
	$(BIN)/python benchmarks/large_table.py
	$(BIN)/python benchmarks/large_evaluation.py
	$(BIN)/python benchmarks/wide_tables.py

clean:
	rm -rf $(VENV) .venv-core .venv-lowest .venv-wheel dist demo results fuzz-failures docs/_build

# A stamp a purpose: what is installed already is not installed again.
$(VENV)/.demo: EXTRA := cli
$(VENV)/.test: EXTRA := test
$(VENV)/.fuzz: EXTRA := fuzz
$(VENV)/.check: EXTRA := check
$(VENV)/.docs: EXTRA := docs
$(VENV)/.bench: EXTRA := cli,torch
$(VENV)/.demo $(VENV)/.test $(VENV)/.fuzz $(VENV)/.check $(VENV)/.docs $(VENV)/.bench: \
		pyproject.toml constraints.txt | $(VENV)/.venv
	@echo "Installing unlabel[$(EXTRA)] into $(VENV) ..."
	@$(INSTALL) '.[$(EXTRA)]'
	@$(if $(TORCHVISION),$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps \
		--constraint constraints.txt pillow torchvision)
	@touch $@

# Without its dependencies: they would bring another build of torch.
$(VENV)/.test $(VENV)/.bench: TORCHVISION := 1

.venv-core/.core: CONSTRAINTS := constraints.txt
.venv-lowest/.core: CONSTRAINTS := constraints-lowest.txt
.venv-core/.core .venv-lowest/.core: pyproject.toml constraints.txt constraints-lowest.txt
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check \
		--constraint $(CONSTRAINTS) --editable . hypothesis pytest
	@touch $@

$(VENV)/.venv:
	@$(PYTHON) -m venv $(VENV)
	@touch $@
