# arm64 without the hardware: cross-compiled, and run by an emulator of the processor; included by the Makefile.
.PHONY: arm64-tools test-arm64 wheel-arm64 cycles

ARM64 := aarch64-unknown-linux-gnu
# Programs run with the library of libc6:arm64: its loader and that of the cross compiler must not meet in one process.
# A compiler of the same release as its arm64 library: Debian's, both of which it names -web.
ARM64_RUSTC ?= /usr/bin/rustc
ARM64_PACKAGES := rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross libc6:arm64 qemu-user
ARM64_COMPILER := RUSTC=$(ARM64_RUSTC) CARGO_TARGET_DIR=$(CURDIR)/target/arm64
ARM64_EMULATOR := CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
# An interpreter of arm64 in a folder of its own, from Debian's packages, with the wheels that people get.
ARM64_PYTHON := target/arm64/python
ARM64_PYTHON_PACKAGES := $(addsuffix :arm64,python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libgcc-s1 \
  libstdc++6 libexpat1 zlib1g libffi8 libssl3 libbz2-1.0 liblzma5 libcrypt1 libuuid1)

arm64-tools:
	@missing=; \
	for tool in $(ARM64_RUSTC) aarch64-linux-gnu-gcc qemu-aarch64; do \
	  command -v $$tool >/dev/null || missing="$$missing $$tool"; \
	done; \
	[ -e /lib/ld-linux-aarch64.so.1 ] || missing="$$missing /lib/ld-linux-aarch64.so.1"; \
	[ -d /usr/lib/rustlib/$(ARM64) ] || missing="$$missing /usr/lib/rustlib/$(ARM64)"; \
	if [ -n "$$missing" ]; then \
	  echo "Not found:$$missing. On Debian 12, as root:"; \
	  echo "  dpkg --add-architecture arm64 && apt-get update"; \
	  echo "  apt-get install --no-install-recommends $(ARM64_PACKAGES)"; \
	  exit 1; \
	fi

# The tests of the processor's own code; those of CUDA have nothing to do with the processor. A test of random calls makes
# fewer: every instruction is emulated.
test-arm64: arm64-tools ## Run the Rust tests on an emulated arm64 processor: every level and the guard pages included.
	$(ARM64_COMPILER) $(ARM64_EMULATOR) PROPTEST_CASES=16 cargo test --target $(ARM64) --no-default-features --no-fail-fast \
	  -p firelu-core -p firelu-cpu -p firelu-filters -p firelu-resampling -p firelu --lib --tests

$(ARM64_PYTHON)/.installed: | $(VENV)/.tools
	@dpkg --print-foreign-architectures 2>/dev/null | grep -qx arm64 || { \
	  echo "Debian's packages of arm64 are needed. As root: dpkg --add-architecture arm64 && apt-get update"; exit 1; }
	mkdir -p $(ARM64_PYTHON)/packages $(ARM64_PYTHON)/site
	cd $(ARM64_PYTHON)/packages && apt-get download --quiet $(ARM64_PYTHON_PACKAGES)
	for package in $(ARM64_PYTHON)/packages/*.deb; do dpkg -x $$package $(ARM64_PYTHON)/root || exit 1; done
	$(BIN)/python -m pip install --quiet --no-deps --only-binary :all: --python-version 3.11 --implementation cp \
	  $(foreach glibc,2_17 2_27 2_28,--platform manylinux_$(glibc)_aarch64) --target $(ARM64_PYTHON)/site \
	  numpy array-api-compat
	@touch $@

wheel-arm64: arm64-tools $(ARM64_PYTHON)/.installed ## Build the arm64 wheel into dist/, and use it in an emulated Python.
	$(BIN)/python -m pip install --quiet "ziglang>=0.13" "auditwheel>=6"
	$(ARM64_COMPILER) PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/maturin build --release --zig --target $(ARM64) \
	  --compatibility manylinux2014 --out dist
	rm -rf $(ARM64_PYTHON)/wheel
	$(BIN)/python -m zipfile -e $$(ls -t dist/*_aarch64.whl | head -1) $(ARM64_PYTHON)/wheel
	PYTHONPATH=$(ARM64_PYTHON)/wheel:$(ARM64_PYTHON)/site qemu-aarch64 -L $(ARM64_PYTHON)/root \
	  $(ARM64_PYTHON)/root/usr/bin/python3.11 tests/reliability/whole_path.py

# The newest that Debian 12 has; an older one does not know the processors.
LLVM_MCA ?= llvm-mca-22

cycles: arm64-tools ## Compute the cycles of the filter loops on processors that are not at hand, into docs/cycles.json.
	@command -v $(LLVM_MCA) >/dev/null || { echo "Not found: $(LLVM_MCA). On Debian 12, as root: apt-get install llvm-22"; exit 1; }
	$(PYTHON) benches/cycles.py --rustc $(ARM64_RUSTC) --mca $(LLVM_MCA)
