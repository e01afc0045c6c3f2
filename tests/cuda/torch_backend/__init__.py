"""torch with a CUDA backend of a few functions, on the driver that is loaded: see `backend.cpp`.

No CUDA build of torch starts on the emulated driver: its run-time library asks for tables that are not documented. So
torch's own tensors of the device ``cuda:0`` get memory, copies and views from here, in CPU and CUDA builds alike, and
everything that `firelu.torch` does with them is the code that serves a GPU. The current stream is what a test sets.
"""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import shutil
import subprocess
import sysconfig
from types import ModuleType

import torch

SOURCE = pathlib.Path(__file__).with_name("backend.cpp")
BUILD = pathlib.Path(__file__).parents[3] / "target" / "torch-backend"
COMPILER = shutil.which("c++")

#: The handle of torch's current stream.
stream = 0


def build() -> pathlib.Path:
    """Compile the backend for this torch, once; return the library."""
    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    library = BUILD / key / "firelu_torch_backend.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(torch.__file__).parent
    include = [root / "include", root / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]]
    partial = library.with_suffix(".partial")
    command = [
        COMPILER,
        *("-std=c++20", "-O0", "-w", "-shared", "-fPIC", "-DTORCH_EXTENSION_NAME=firelu_torch_backend"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(f"-I{path}" for path in include),
        *(str(SOURCE), "-o", str(partial), f"-L{root / 'lib'}"),
        *("-ltorch_cpu", "-lc10", "-ltorch_python"),
    ]
    subprocess.run(command, check=True)
    partial.rename(library)
    return library


def start() -> ModuleType:
    """Give torch the backend, and say that its CUDA has started."""
    spec = importlib.util.spec_from_file_location("firelu_torch_backend", build())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.cuda._lazy_init = lambda: None
    torch._C._cuda_getCurrentRawStream = lambda index: stream
    return module
