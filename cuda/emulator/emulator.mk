# The emulated CUDA driver: `LD_LIBRARY_PATH=target/emulator python …` sees a CUDA device.
.PHONY: emulator
emulator: ## Build the emulated CUDA driver into target/emulator.
	cargo build --release -p firelu-cuda-emulator
	install -D target/release/libcuda_emulator.so target/emulator/libcuda.so
	ln -sf libcuda.so target/emulator/libcuda.so.1
