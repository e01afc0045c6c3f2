"""Network pickles of the StyleGAN family: loaded with the user's trust, and without it only described."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..errors import ArgumentError
from .install import install

#: How many names a refusal lists.
_LISTED = 8
#: What rebuilds tensors and containers; it is in every such file.
_HARMLESS = {
    "collections.OrderedDict",
    "torch.Size",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_tensor_v2",
    "torch.device",
}


class Contents(NamedTuple):
    """What loading a pickle would execute."""

    #: Functions and classes that it names, as dotted names.
    names: list[str]
    #: The classes whose modules' source texts it holds, with the number of lines.
    sources: dict[str, int]


def load_pickle(path: str | os.PathLike[str], *, trust: bool = False) -> Any:
    """Load a network pickle, such as ``stylegan3-t-ffhq-1024x1024.pkl``, from a local file.

    Such a file holds the source text of its network, and loading it **executes that text**: load only what comes from
    somebody you trust. The drop-in is installed and stays so; where no ``torch_utils`` and ``dnnlib`` are on the path,
    firelu's own take their place, so that no repository is needed. Tensors of a CUDA device come to the CPU.

    Args:
        path: a local file.
        trust: whether its code may be executed. Without it nothing is, and the error says what would be.

    Returns:
        The object in the file, for the published ones a dictionary with "G", "D" and "G_ema".
    """
    place = os.fspath(path)
    if "://" in place:
        raise ArgumentError(f"load_pickle: path: got {place}, takes a local file: download it first")
    data = Path(place).read_bytes()
    if not trust:
        raise ArgumentError(f"load_pickle: trust: got False, takes True: {_described(place, data)}")
    install()
    return _Unpickler(io.BytesIO(data)).load()


def read_contents(data: bytes) -> Contents:
    """Read what a pickle names, without executing any of it."""
    names: dict[str, None] = {}
    sources: dict[str, int] = {}
    source = ""
    before: list[str] = ["", ""]  # the texts that were pushed last
    for name, argument in _operations(data):
        if name == "GLOBAL":
            names[argument.replace(" ", ".")] = None
        elif name == "STACK_GLOBAL":
            names[".".join(before)] = None
        elif isinstance(argument, str):
            if before[1] == "module_src":
                source = argument
            elif before[1] == "class_name":
                sources[argument] = source.count("\n") + 1
            before = [before[1], argument]
    return Contents([name for name in names if name not in _HARMLESS], sources)


def _operations(data: bytes) -> Iterator[tuple[str, Any]]:
    """Give the operations of a pickle, with texts from its memo as if they were written out."""
    memo: dict[int, Any] = {}
    last: Any = None
    try:
        for operation, value, _ in pickletools.genops(data):
            name, argument = operation.name, cast("Any", value)
            if name == "MEMOIZE":
                memo[len(memo)] = last
                continue
            if name in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[int(argument)] = last
                continue
            last = memo.get(int(argument)) if name in ("GET", "BINGET", "LONG_BINGET") else argument
            yield name, last
    except Exception as error:
        raise ArgumentError(f"load_pickle: path: got a file that is no pickle ({error}), takes one") from None


def _described(place: str, data: bytes) -> str:
    names, sources = read_contents(data)
    texts = [f"the source of {name} ({lines} lines)" for name, lines in sources.items()]
    listed = ", ".join([*texts, *names][:_LISTED]) or "nothing but containers and numbers"
    more = len(texts) + len(names) - _LISTED
    return f"loading {place} would execute {listed}" + (f" and {more} more" if more > 0 else "")


def _load_on_cpu(data: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)


class _Unpickler(pickle.Unpickler):
    """Unpickles, with tensors on the CPU."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _load_on_cpu
        if module.partition(".")[0] == "dnnlib" and "tflib" in module:
            raise ArgumentError("load_pickle: path: got a pickle of a TensorFlow network, takes one of torch")
        return super().find_class(module, name)
