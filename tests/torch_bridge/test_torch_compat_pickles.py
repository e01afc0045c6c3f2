"""Network pickles: loaded with trust, with and without a repository; refused without, with what would be executed."""

from __future__ import annotations

import collections
import pickle
import sys
import types

import firelu.compat
import lookalike_stylegan3
import plain_formulas
import pytest
import torch
from compat_checks import check_derivatives, tensors

# What a training run pickles: the text of the network's module, whose operators are imported by absolute names.
SOURCE = """
import numpy as np
import torch
import dnnlib
from torch_utils import misc
from torch_utils import persistence
from torch_utils.ops import bias_act
from torch_utils.ops import filtered_lrelu
from torch_utils.ops import upfirdn2d


@misc.profiled_function
def scaled(x):
    return x * 2


@persistence.persistent_class
class Generator(torch.nn.Module):
    def __init__(self, channels, *, clamp=256):
        super().__init__()
        self.clamp = clamp
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.register_buffer("taps", upfirdn2d.setup_filter([1, 3, 3, 1]))
        self.options = dnnlib.EasyDict(gain=1.5)

    def forward(self, x):
        misc.assert_shape(x, [None, self.weight.shape[0], None, None])
        x = bias_act.bias_act(scaled(x), self.weight, act="lrelu", gain=self.options.gain, clamp=self.clamp)
        x = upfirdn2d.upsample2d(x, self.taps)
        return filtered_lrelu.filtered_lrelu(x=x, fu=self.taps, fd=self.taps, b=self.weight, up=2, down=2, padding=3)
"""


class EasyDict(dict):
    """Stands for the class that published files name."""

    __module__ = "dnnlib.util"


def _reconstruct_persistent_obj(meta):
    raise AssertionError("only its name is pickled")


_reconstruct_persistent_obj.__module__ = "torch_utils.persistence"


class Written:
    """Pickled as the call that a persistent object is."""

    def __init__(self, **meta):
        self.meta = {"type": "class", "version": 6} | meta

    def __reduce__(self):
        return _reconstruct_persistent_obj, (self.meta,)


def written(folder, source=SOURCE):
    """Write a file as it is published, without executing the network's source."""
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0])
    state = vars(torch.nn.Module()) | {
        "clamp": 2.0,
        "_parameters": collections.OrderedDict(weight=torch.nn.Parameter(torch.tensor([0.5, -0.25]))),
        "_buffers": collections.OrderedDict(taps=torch.outer(taps, taps) / 64),
        "options": EasyDict(gain=1.5),
    }
    with pytest.MonkeyPatch.context() as patch:
        for value in (_reconstruct_persistent_obj, EasyDict):
            home = types.ModuleType(value.__module__)
            setattr(home, value.__name__, value)
            patch.setitem(sys.modules, home.__name__.partition(".")[0], types.ModuleType("package"))
            patch.setitem(sys.modules, home.__name__, home)
        network = Written(module_src=source, class_name="Generator", state=state)
        data = pickle.dumps({"G_ema": network, "training_set_kwargs": None})
    path = folder / "network.pkl"
    path.write_bytes(data)
    return path


def expected(x, bias=None):
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    bias = torch.tensor([0.5, -0.25]) if bias is None else bias
    x = plain_formulas.bias_act(x * 2, bias, 1, "lrelu", gain=1.5, clamp=2.0)
    x = plain_formulas.upfirdn2d(x, taps, 2, 1, (2, 1, 2, 1), gain=4)
    return plain_formulas.filtered_lrelu(x, taps, taps, bias, 2, 2, 3)


def check(generator):
    """Values, first and second derivatives by image and weight."""
    generator = generator.double()
    check_derivatives(
        lambda x, weight: torch.func.functional_call(generator, {"weight": weight}, (x,)),
        expected,
        *tensors((1, 2, 5, 6), (2,)),
    )


@pytest.fixture
def network(tmp_path):
    """Give the file; firelu's packages are forgotten afterwards."""
    yield written(tmp_path)
    firelu.compat.uninstall()
    for name in [name for name in sys.modules if name.startswith("_imported_module_")]:
        del sys.modules[name]


def test_without_a_repository(network):
    loaded = firelu.compat.load_pickle(network, trust=True)
    generator = loaded["G_ema"]
    x = torch.randn(1, 2, 5, 6)
    torch.testing.assert_close(generator(x), expected(x))
    assert sys.modules["torch_utils.ops.bias_act"].__spec__.origin.endswith("bias_act.py")
    with pytest.raises(
        AssertionError, match=r"assert_shape: tensor: got \[1, 3, 4, 4\], takes \[None, 2, None, None\]"
    ):
        generator(torch.ones(1, 3, 4, 4))
    again = pickle.loads(pickle.dumps(generator))  # it is a persistent object of its own now
    torch.testing.assert_close(again(x), expected(x))
    made = type(generator)(2, clamp=3.0)
    assert (made.init_args, made.init_kwargs.clamp) == ((2,), 3.0)
    firelu.compat.uninstall()
    assert not any(name.partition(".")[0] in ("torch_utils", "dnnlib") for name in sys.modules)
    torch.testing.assert_close(generator(x), expected(x))
    check(generator)


REPOSITORY = {
    "dnnlib/__init__.py": "from .util import EasyDict",
    "dnnlib/util.py": """
        class EasyDict(dict):
            __getattr__ = dict.__getitem__
    """,
    "torch_utils/persistence.py": """
        import sys
        import types

        def persistent_class(cls):
            return cls

        def _reconstruct_persistent_obj(meta):
            module = types.ModuleType("own_module")
            sys.modules["own_module"] = module
            exec(meta["module_src"], vars(module))
            made = vars(module)[meta["class_name"]]
            instance = made.__new__(made)
            instance.__setstate__(meta["state"])
            return instance
    """,
}


def test_with_a_repository_on_the_path(network, tree):
    files = lookalike_stylegan3.package("torch_utils") | REPOSITORY
    files["torch_utils/misc.py"] = [files["torch_utils/misc.py"], "def assert_shape(tensor, shape):\n    pass"]
    files["torch_utils/ops/upfirdn2d.py"] = [
        *files["torch_utils/ops/upfirdn2d.py"],
        """
        def upsample2d(x, f):
            return upfirdn2d(x, f, up=2, padding=[2, 1, 2, 1], gain=4)
        """,
    ]
    import_module = tree(files)
    generator = firelu.compat.load_pickle(network, trust=True)["G_ema"]
    x = torch.randn(1, 2, 5, 6)
    torch.testing.assert_close(generator(x), expected(x))
    check(generator)
    assert [
        call for name in lookalike_stylegan3.OPERATORS for call in import_module(f"torch_utils.ops.{name}").calls
    ] == []
    with pytest.raises(ModuleNotFoundError):
        import_module("torch_utils.ops.fma")  # theirs has none, and firelu's is not mixed in
    sys.modules.pop("own_module")


def test_without_trust_nothing_is_executed(tmp_path):
    path = written(tmp_path, "raise RuntimeError('executed')\nsecond = 2")
    with pytest.raises(firelu.ArgumentError) as refused:
        firelu.compat.load_pickle(path)
    assert str(refused.value) == (
        f"load_pickle: trust: got False, takes True: loading {path} would execute the source of Generator (2 lines), "
        "torch_utils.persistence._reconstruct_persistent_obj, torch.storage._load_from_bytes, dnnlib.util.EasyDict"
    )
    assert not firelu.compat.status()["installed"]
    with pytest.raises(RuntimeError, match="executed"):
        firelu.compat.load_pickle(path, trust=True)
    assert not any(name.startswith("_imported_module_") for name in sys.modules)
    firelu.compat.uninstall()


@pytest.mark.parametrize("protocol", range(6))
def test_what_a_pickle_names_is_found_in_every_protocol(protocol):
    from firelu.compat.pickles import read_contents

    data = pickle.dumps([collections.Counter, collections.deque, torch.nn.Linear, collections.Counter], protocol)
    assert read_contents(data).names == ["collections.Counter", "collections.deque", "torch.nn.modules.linear.Linear"]


@pytest.mark.parametrize(
    ("content", "trust", "message"),
    [
        (b"not a pickle", False, "load_pickle: path: got a file that is no pickle"),
        (b"cdnnlib.tflib.network\nNetwork\n.", True, "got a pickle of a TensorFlow network, takes one of torch"),
    ],
)
def test_other_files_are_refused(tmp_path, content, trust, message):
    path = tmp_path / "file.pkl"
    path.write_bytes(content)
    with pytest.raises(firelu.ArgumentError, match=message):
        firelu.compat.load_pickle(path, trust=trust)
    firelu.compat.uninstall()


def test_only_local_files(tmp_path):
    with pytest.raises(firelu.ArgumentError, match=r"load_pickle: path: got https://example\.org/a\.pkl, takes"):
        firelu.compat.load_pickle("https://example.org/a.pkl", trust=True)
    with pytest.raises(FileNotFoundError):
        firelu.compat.load_pickle(tmp_path / "missing.pkl", trust=True)
