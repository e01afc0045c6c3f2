# Everything runs in a virtual environment of its own, made on first use. `make help` lists the commands.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src cuda/ptx cuda/include -type f 2>/dev/null) Cargo.toml pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help all demo test test-full test-rust test-python bench docs lint format wheel clean

include cuda/cuda.mk
include cuda/emulator/emulator.mk
include reliability.mk
include arm64.mk
include freethreaded.mk

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

all: lint test demo ## Lint, test and run the demo.

$(VENV)/.tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip "maturin>=1.9.4,<2"
	@touch $@

# The demo needs little; what the tests need (torch above all) comes with the first test.
$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile develop --extras demo
	@touch $@

$(VENV)/.installed: $(VENV)/.built
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile develop --extras demo,test,torch
	@touch $@

demo: $(VENV)/.built ## Resample generated images; the report is demo-output/index.html.
	$(BIN)/firelu demo --output demo-output

test: test-rust test-python ## Run all tests (cargo and pytest).

test-rust:
	@if cargo nextest --version >/dev/null 2>&1; then \
	  cargo nextest run --workspace --no-fail-fast && cargo test --workspace --doc; \
	else cargo test --workspace; fi

test-python: $(VENV)/.installed emulator
	$(BIN)/python -m pytest -m "not full"

test-full: test ## Run the tests and everything that takes longer.
	$(BIN)/python -m pytest -m full

bench: $(VENV)/.built ## Time the operators against a copy of the same bytes and against peers.
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --extras torch,bench
	$(BIN)/python -m firelu.bench --json bench-output/results.json --plot bench-output/ratios.png

docs: $(VENV)/.built ## Build the documentation into site/.
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile develop --extras demo,docs,torch,dask
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs site

lint: $(VENV)/.installed ## Check formatting, lints, types and stubs.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --features python --lib -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest firelu._firelu --allowlist tests/stubtest-allowlist.txt

format: $(VENV)/.tools ## Format the sources.
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/.tools ## Build the Linux wheel for old systems and the source distribution into dist/, audited.
	$(BIN)/python -m pip install --quiet "ziglang>=0.13" "auditwheel>=6"
	rustup target add $$(uname -m)-unknown-linux-gnu 2>/dev/null || true
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/maturin build --release --zig --compatibility manylinux2014 --out dist
	$(BIN)/maturin sdist --out dist
	$(BIN)/auditwheel show $$(ls -t dist/*.whl | head -1)

clean: ## Remove everything that was built.
	rm -rf $(VENV) target dist demo-output bench-output site
