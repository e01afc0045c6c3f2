"""Compile the sample kernels to PTX with NVRTC: `python compile.py FOLDER_WITH_NVIDIA_WHEELS`.

The folder is the target of `pip install --target FOLDER nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-runtime-cu11==11.8.89`.
"""

import ctypes
import re
import sys
from pathlib import Path


def compile_source(nvrtc: ctypes.CDLL, source: str, include: Path) -> str:
    """Return the PTX of one source, its header lowered to the oldest version that knows the instructions."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = ["--gpu-architecture=compute_50", "--std=c++17", "--fmad=false", f"--include-path={include}"]
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    if status != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    return re.sub(r"^\.version .*$", ".version 6.0", text.value.decode(), count=1, flags=re.MULTILINE)


def main() -> None:
    """Compile every `.cu` beside this file."""
    wheels = Path(sys.argv[1]) / "nvidia"
    nvrtc = ctypes.CDLL(str(next(wheels.glob("cuda_nvrtc/lib/libnvrtc.so.*"))))
    for source in sorted(Path(__file__).parent.glob("*.cu")):
        source.with_suffix(".ptx").write_text(compile_source(nvrtc, source.read_text(), wheels / "cuda_runtime/include"))


if __name__ == "__main__":
    main()
