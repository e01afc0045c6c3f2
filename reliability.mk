# Reliability: what takes longer than a test run; included by the Makefile.
.PHONY: exhaustive soak fuzz sanitize valgrind loom deny hostile reliability

test-full: loom sanitize valgrind exhaustive

MINUTES ?= 5
WORKERS ?= $(shell nproc)
SECONDS ?= 60
RESULTS := docs/reliability
LOGS := target/reliability
TARGET := $(shell rustc -vV | sed -n 's/^host: //p')
# The test profile leaves out the assertions of the filter loops and the lines that a report names: see Cargo.toml.
ASSERTING := --config profile.dev.package.firelu-filters.debug-assertions=true --config 'profile.dev.debug="line-tables-only"'
ADDRESS := RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=1

# A run that fails must not pass because `tee` does.
fuzz sanitize valgrind loom deny: SHELL := bash
fuzz sanitize valgrind loom deny: .SHELLFLAGS := -o pipefail -c

exhaustive: ## Compare every function of one number with float64 for all 2^32 float32 numbers.
	cargo test -p firelu-cpu --lib all_float32_numbers -- --ignored --nocapture

$(LOGS):
	@mkdir -p $(LOGS) $(RESULTS)

soak: $(VENV)/.installed emulator | $(LOGS) ## Call every operator at random for MINUTES=n against float64 definitions, then as long what lies beside calls.
	cargo build --profile soak -p firelu-soak
	target/soak/firelu-soak --minutes $(MINUTES) --workers $(WORKERS) --json $(RESULTS)/soak.json
	$(BIN)/python tests/soak/python/soak.py --minutes $(MINUTES) --json $(RESULTS)/soak.json

fuzz: | $(LOGS) ## Run both fuzz targets with AddressSanitizer for SECONDS=n each; needs cargo-fuzz.
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	@for target in operators definitions; do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer address $$target -- -max_total_time=$(SECONDS) -max_len=512 \
	    -print_final_stats=1 2>&1 | tee $(LOGS)/fuzz_$$target.log || exit 1; \
	done
	@awk 'BEGIN {printf "{"} FNR == 1 {split(FILENAME, name, /fuzz_|[.]log/)} \
	  /^stat::number_of_executed_units/ {printf "%s\"%s\": %d", comma, name[2], $$2; comma = ", "} END {print "}"}' \
	  $(LOGS)/fuzz_operators.log $(LOGS)/fuzz_definitions.log > $(RESULTS)/fuzz.json

# The extension module cannot be linked alone with a sanitizer: tests of the library are.
sanitize: | $(LOGS) ## Run the Rust tests under AddressSanitizer.
	($(ADDRESS) cargo test $(ASSERTING) --target $(TARGET) --target-dir target/sanitize -p firelu-soak -p firelu-filters --tests && \
	 $(ADDRESS) cargo test $(ASSERTING) --target $(TARGET) --target-dir target/sanitize -p firelu --lib) 2>&1 | tee $(LOGS)/sanitize.log
	@awk '/^test result: ok/ {tests += $$4} END {printf "{\"tests\": %d}\n", tests}' $(LOGS)/sanitize.log \
	  > $(RESULTS)/sanitize.json

valgrind: $(VENV)/.built | $(LOGS) ## Run calls of everything under valgrind, from Python down to the kernels.
	PYTHONMALLOC=malloc valgrind --error-exitcode=9 --leak-check=no --undef-value-errors=no \
	  --suppressions=tests/reliability/python.supp $(BIN)/python tests/reliability/whole_path.py 2>&1 \
	  | tee $(LOGS)/valgrind.log
	@awk '/whole path done/ {calls = $$1} /ERROR SUMMARY/ {errors = $$4} \
	  END {printf "{\"calls\": %d, \"errors\": %d}\n", calls, errors}' $(LOGS)/valgrind.log > $(RESULTS)/valgrind.json

loom: | $(LOGS) ## Check every interleaving of the task counter and the free list.
	cd tests/loom && LOOM_LOG=off cargo test --release 2>&1 | tee $(CURDIR)/$(LOGS)/loom.log
	@awk '/^test result: ok/ {tests += $$4} END {printf "{\"models\": %d}\n", tests}' $(LOGS)/loom.log > $(RESULTS)/loom.json

deny: | $(LOGS) ## Check licences, bans and sources; needs cargo-deny.
	cargo deny --all-features check licenses bans sources 2>&1 | tee $(LOGS)/deny.log
	@awk '/^bans ok/ {printf "{\"checked\": \"%s\"}\n", $$0}' $(LOGS)/deny.log > $(RESULTS)/deny.json

hostile: $(VENV)/.installed emulator ## Run the hostile suites and keep their numbers.
	FIRELU_RESULTS=$(CURDIR)/$(RESULTS) $(BIN)/python -m pytest tests/reliability

reliability: loom sanitize fuzz valgrind deny soak hostile ## Run all of it and write the table of docs/reliability.md.
	$(BIN)/python docs/write_reliability.py
