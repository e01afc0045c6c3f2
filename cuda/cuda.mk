# The PTX that ships; included by the Makefile.
.PHONY: ptx ptx-check ptx-check-all ptx-toolchain

PTX_PYTHON ?= python3

ptx-toolchain: ## Fetch the pinned CUDA compiler and assemblers from PyPI
	$(PTX_PYTHON) cuda/build.py fetch

ptx: ptx-toolchain ## Compile cuda/*.cu to the PTX that ships
	$(PTX_PYTHON) cuda/build.py build

ptx-check: ## Check the shipped PTX against its sources; with the toolchain also rebuild and assemble it
	$(PTX_PYTHON) cuda/build.py check

ptx-check-all: ptx-toolchain ## Assemble the shipped PTX with every assembler for every architecture
	$(PTX_PYTHON) cuda/build.py check-all

.PHONY: bench-cuda
bench-cuda: $(VENV)/.installed emulator ## Count what the CUDA kernels do, on the emulated driver
	FIRELU_EMULATOR_REPORT=none $(BIN)/python cuda/bench.py

.PHONY: bench-cuda-torch
bench-cuda-torch: $(VENV)/.installed emulator ## Host time of firelu.torch on emulated CUDA tensors, against the CPU
	FIRELU_EMULATOR_REPORT=none $(BIN)/python cuda/bench_torch.py

.PHONY: test-mutations
test-full: test-mutations
MUTATIONS := cargo test -p firelu -p firelu-cuda-emulator --test cuda_mutations
# Two processes, one for the filters and one for the rest: a process has one emulated device.
test-mutations: emulator ## Take each guard and bound out of every kernel in turn; each must be missed
	$(MUTATIONS) --no-run
	@export FIRELU_EMULATOR_REPORT=none FIRELU_EMULATOR_WORKERS=1; \
	$(MUTATIONS) -- --ignored --nocapture filters & filters=$$!; \
	$(MUTATIONS) -- --ignored --nocapture --skip filters; rest=$$?; \
	wait $$filters && exit $$rest
