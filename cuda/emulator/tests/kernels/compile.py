"""Compile the sample kernels to PTX with NVRTC.

`pip install --target FOLDER nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-runtime-cu11==11.8.89`, then
`python compile.py FOLDER` writes `NAME.ptx` as the product's own kernels are compiled: for compute_50, the header
lowered to PTX 6.0. `python compile.py FOLDER --architecture compute_75 --suffix _cuda13 --keep-version` with the
wheels `nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96` writes the samples of the newest toolchain.
"""

import argparse
import ctypes
import re
from pathlib import Path


def compile_source(nvrtc: ctypes.CDLL, source: str, architecture: str, include: Path) -> str:
    """Return the PTX of one source."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = [f"--gpu-architecture={architecture}", "--std=c++17", "--fmad=false", f"--include-path={include}"]
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
    return text.value.decode()


def main() -> None:
    """Compile every `.cu` beside this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the wheels were installed")
    parser.add_argument("--architecture", default="compute_50")
    parser.add_argument("--suffix", default="", help="added to the names of the PTX files")
    parser.add_argument("--keep-version", action="store_true", help="leave the version of the header as it is")
    arguments = parser.parse_args()
    libraries = sorted(arguments.folder.rglob("libnvrtc-builtins.so*")) + sorted(arguments.folder.rglob("libnvrtc.so*"))
    for library in libraries:
        # The builtins first: NVRTC looks for them by name alone.
        nvrtc = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    include = next(arguments.folder.rglob("cuda_runtime.h")).parent
    for source in sorted(Path(__file__).parent.glob("*.cu")):
        text = compile_source(nvrtc, source.read_text(), arguments.architecture, include)
        if not arguments.keep_version:
            text = re.sub(r"^\.version .*$", ".version 6.0", text, count=1, flags=re.MULTILINE)
        source.with_name(f"{source.stem}{arguments.suffix}.ptx").write_text(text)


if __name__ == "__main__":
    main()
