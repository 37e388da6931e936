PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles the modules that it imports, a small part of those installed, and keeps them.
PIP_OPTIONS := --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE
# The constraints give every machine the same versions.
INSTALL := $(BIN)/python -m pip install -qq $(PIP_OPTIONS) --constraint constraints.txt --editable

# Threads that wait for work in a loop would take the processors from the other processes.
test test-slow test-core test-lowest: export OMP_WAIT_POLICY := passive
test test-slow test-core test-lowest: export OPENBLAS_NUM_THREADS := 1
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined

FUZZ_TARGETS := filters plans csv csv_gz feather jsonl npy npz parquet summaries
SECONDS_EACH := 30

.PHONY: demo test test-slow test-core test-lowest test-wheel test-kernels test-sanitized test-serve fuzz check docs bench bench-tables clean

demo: $(VENV)/.demo
	$(BIN)/unlabel demo --out demo

test: $(VENV)/.test
	$(PYTEST)

# Slow tests too, and 500 random cases per property, others each time.
test-slow: $(VENV)/.test
	$(PYTEST) -m 'slow or not slow' --hypothesis-profile=many

# The core alone, with only its own dependencies installed, and a few random cases.
test-core: .venv-core/.core
	.venv-core/bin/python -m pytest --hypothesis-profile=few tests/core

# The same on the lowest versions allowed, with scikit-learn.
test-lowest: .venv-lowest/.core
	.venv-lowest/bin/python -m pytest -q --hypothesis-profile=few tests/core

# The compiled loops under AddressSanitizer and UBSan: the tests of the method on a copy of src.
test-sanitized: $(VENV)/.test
	rm -rf .sanitized && mkdir .sanitized && cp -r src setup.py pyproject.toml README.md LICENSE .sanitized
	cd .sanitized && rm -f src/unlabel/_method/compiled/_loops*.so && \
		CFLAGS="$(SANITIZE) -g" LDFLAGS="$(SANITIZE)" ../$(BIN)/python setup.py -q build_ext --inplace
	PYTHONPATH=.sanitized/src LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 $(BIN)/python -m pytest -q --hypothesis-profile=few \
		tests/core/_method tests/core/test_promises.py tests/core/test_shapes.py

# The kernel for GPUs in Triton's interpreter, on the CPU: 2 GB, and a minute.
test-kernels: .venv-kernels/.kernels
	TRITON_INTERPRET=1 .venv-kernels/bin/python -m pytest tests/torch/test_kernels.py

# Build the wheel, and use it in two environments with nothing else: bare, and with the commands and the demo.
test-wheel:
	rm -rf .venv-wheel dist
	$(PYTHON) -m venv .venv-wheel/bare
	$(PYTHON) -m venv .venv-wheel/cli
	.venv-wheel/bare/bin/python -m pip wheel -qq --disable-pip-version-check --no-deps --wheel-dir dist .
	.venv-wheel/bare/bin/python -m pip install -qq $(PIP_OPTIONS) --constraint constraints.txt dist/*.whl
	cd .venv-wheel && bare/bin/python ../.ci/smoke.py bare
	.venv-wheel/cli/bin/python -m pip install -qq $(PIP_OPTIONS) --constraint constraints.txt "$$(echo dist/*.whl)[cli]"
	cd .venv-wheel && cli/bin/python ../.ci/smoke.py cli
	cd .venv-wheel && cli/bin/unlabel demo --out demo

# `unlabel serve` in front of real model servers, MLServer and Triton (Linux on x86): 930 MB.
test-serve: .venv-serve/.serve
	.venv-serve/bin/python -m pytest -o 'norecursedirs=.*' tests/serve tests/serve_real

# Run every target for SECONDS_EACH; a failing input is left in fuzz-failures/, and the others still run.
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

# Every method on a small dataset: two minutes. The paper's own experiments need a GPU.
bench: $(VENV)/.bench
	$(BIN)/python -m research run --suite quick --out results
	$(BIN)/python -m research tables results

bench-tables: $(VENV)/.demo
	$(BIN)/python benchmarks/large_table.py
	$(BIN)/python benchmarks/large_evaluation.py
	$(BIN)/python benchmarks/wide_tables.py

clean:
	rm -rf $(VENV) .venv-core .venv-kernels .venv-lowest .venv-serve .venv-wheel .sanitized dist demo results fuzz-failures docs/_build

# One stamp file per purpose, so that nothing is installed twice.
$(VENV)/.demo: EXTRA := cli
$(VENV)/.test: EXTRA := test
$(VENV)/.fuzz: EXTRA := fuzz
$(VENV)/.check: EXTRA := check
$(VENV)/.docs: EXTRA := docs
$(VENV)/.bench: EXTRA := cli,torch
$(VENV)/.ci: EXTRA := check,docs,test
$(VENV)/.demo $(VENV)/.test $(VENV)/.fuzz $(VENV)/.check $(VENV)/.docs $(VENV)/.bench $(VENV)/.ci: \
		pyproject.toml constraints.txt | $(VENV)/.venv
	@echo "Installing unlabel[$(EXTRA)] into $(VENV) ..."
	@$(INSTALL) '.[$(EXTRA)]'
	@$(if $(TORCHVISION),$(BIN)/python -m pip install -qq $(PIP_OPTIONS) --no-deps \
		--constraint constraints.txt pillow torchvision)
	@touch $@

# torchvision without its dependencies, which would bring another build of torch.
$(VENV)/.test $(VENV)/.bench $(VENV)/.ci: TORCHVISION := 1

.venv-core/.core: CONSTRAINTS := constraints.txt
.venv-lowest/.core: CONSTRAINTS := constraints-lowest.txt
.venv-lowest/.core: EXTRA := [sklearn]
.venv-core/.core .venv-lowest/.core: pyproject.toml constraints.txt constraints-lowest.txt
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq $(PIP_OPTIONS) \
		--constraint $(CONSTRAINTS) --editable '.$(EXTRA)' hypothesis pytest
	@touch $@

.venv-kernels/.kernels: pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq $(PIP_OPTIONS) \
		--constraint constraints.txt --editable '.[torch]' hypothesis pytest triton
	@touch $@

# Triton's wheel is there for the server itself, which runs Python models on an older NumPy.
.venv-serve/.serve: pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
		--editable '.[cli,serve]' hypothesis mlserver mlserver-sklearn pytest 'tritonclient[http]'
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --upgrade \
		--target $(@D)/triton nvidia-pytriton==0.7.0 numpy==1.26.4
	@touch $@

$(VENV)/.venv:
	@$(PYTHON) -m venv $(VENV)
	@touch $@
