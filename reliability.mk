# Reliability: what takes longer than a test run; included by the Makefile.
.PHONY: soak fuzz sanitize valgrind loom deny reliability

test-full: loom sanitize valgrind

MINUTES ?= 5
SECONDS ?= 60
RESULTS := docs/reliability
TARGET := $(shell rustc -vV | sed -n 's/^host: //p')

soak: ## Call every operator at random for MINUTES=n against float64 definitions.
	cargo build --profile soak -p firelu-soak
	@mkdir -p $(RESULTS)
	target/soak/firelu-soak --minutes $(MINUTES) --json $(RESULTS)/soak.json

fuzz: ## Run both fuzz targets for SECONDS=n each; needs cargo-fuzz.
	@cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz
	@for target in operators definitions; do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer address $$target -- -max_total_time=$(SECONDS) -max_len=512 || exit 1; \
	done

# The extension module cannot be linked alone with a sanitizer: tests of the library are.
sanitize: ## Run the Rust tests under AddressSanitizer.
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=1 \
	  cargo test --target $(TARGET) --target-dir target/sanitize -p firelu-soak --tests
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=1 \
	  cargo test --target $(TARGET) --target-dir target/sanitize -p firelu --lib
	@mkdir -p $(RESULTS) && echo '{"addresssanitizer": "clean"}' > $(RESULTS)/sanitize.json

valgrind: $(VENV)/.built ## Run one call of everything under valgrind, from Python down to the kernels.
	PYTHONMALLOC=malloc valgrind --error-exitcode=9 --quiet --leak-check=no --undef-value-errors=no \
	  --suppressions=tests/reliability/python.supp $(BIN)/python tests/reliability/whole_path.py
	@mkdir -p $(RESULTS) && echo '{"valgrind": "clean"}' > $(RESULTS)/valgrind.json

loom: ## Check every interleaving of the task counter and the free list.
	cd tests/loom && cargo test --release
	@mkdir -p $(RESULTS) && echo '{"loom": "clean"}' > $(RESULTS)/loom.json

deny: ## Check licences, bans and sources; needs cargo-deny.
	cargo deny --all-features check licenses bans sources

reliability: loom sanitize valgrind soak $(VENV)/.installed ## Run all of it and write the table of docs/reliability.md.
	FIRELU_RESULTS=$(CURDIR)/$(RESULTS) $(BIN)/python -m pytest tests/reliability
	$(BIN)/python docs/write_reliability.py
