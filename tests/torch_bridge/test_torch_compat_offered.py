"""The packages that pickles import: firelu's own, where nobody else has them."""

from __future__ import annotations

import importlib
import itertools
import sys
import warnings

import firelu.compat
import plain_formulas
import pytest
import torch
from torch import nn
from torch.nn import functional


@pytest.fixture
def offered():
    """Give the importer of an offered module."""
    with firelu.compat.install():
        yield importlib.import_module


NAMES = [
    "dnnlib",
    "dnnlib.util",
    "torch_utils.misc",
    "torch_utils.persistence",
    *(
        f"torch_utils.ops.{name}"
        for name in (
            "bias_act",
            "conv2d_gradfix",
            "conv2d_resample",
            "filtered_lrelu",
            "fma",
            "grid_sample_gradfix",
            "upfirdn2d",
        )
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_offered_and_forgotten(name):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    with firelu.compat.install() as replaced:
        module = importlib.import_module(name)
        assert module.__name__ == name
        assert name in replaced
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"{name}.nothing")
        assert not any(each["what"].startswith(name) for each in firelu.compat.status()["left_alone"])
    assert name not in sys.modules


def test_a_package_on_the_path_comes_first(tree):
    import_module = tree({"torch_utils/__init__.py": "own = True"})
    with firelu.compat.install():
        assert import_module("torch_utils").own
        with pytest.raises(ModuleNotFoundError):
            import_module("torch_utils.misc")
        assert import_module("dnnlib").EasyDict(a=1).a == 1, "one is there, the other is not"


def test_a_dictionary_with_attributes(offered):
    easy = offered("dnnlib").EasyDict(a=1)
    easy.b = 2
    del easy.a
    assert easy == {"b": 2}
    with pytest.raises(AttributeError):
        _ = easy.a


def test_only_local_files_are_opened(offered, tmp_path):
    util = offered("dnnlib.util")
    (tmp_path / "file").write_bytes(b"content")
    with util.open_url(str(tmp_path / "file")) as file:
        assert file.read() == b"content"
    with pytest.raises(firelu.ArgumentError, match=r"open_url: url: got https://example\.org/x, takes the path"):
        util.open_url("https://example.org/x", verbose=False)


@pytest.mark.parametrize("size", [3, 4, 12])
def test_filters(offered, size):
    module = offered("torch_utils.ops.upfirdn2d")
    taps = torch.arange(1.0, size + 1)
    made = module.setup_filter(taps.tolist(), gain=4)
    assert made.dim() == (1 if size >= 8 else 2)
    whole = torch.outer(made, made) if made.dim() == 1 else made
    torch.testing.assert_close(whole, torch.outer(taps, taps) / taps.sum() ** 2 * 4)
    assert (
        module.setup_filter(taps, separable=True, normalize=False, flip_filter=True).tolist() == taps.flip(0).tolist()
    )
    assert module.setup_filter(None).tolist() == [[1]]
    assert module._get_filter_size(torch.ones(2, 3)) == (3, 2)
    assert module._get_filter_size(None) == (1, 1)


def test_sizes_of_resampled_pictures(offered):
    module = offered("torch_utils.ops.upfirdn2d")
    x = torch.full((1, 2, 8, 6), 3.0)
    for taps in ([1, 3, 3, 1], [1, 2, 1], list(range(1, 13))):
        f = module.setup_filter(taps)
        up, down = module.upsample2d(x, f), module.downsample2d(x, f)
        assert (up.shape, down.shape) == ((1, 2, 16, 12), (1, 2, 4, 3))
        assert module.filter2d(x, f).shape == x.shape
        assert module.filter2d(x, f, padding=[1, 2]).shape == (1, 2, 12, 8)
    torch.testing.assert_close(
        module.upsample2d(x, None), plain_formulas.upfirdn2d(x, None, 2, 1, (1, -1, 1, -1), gain=4)
    )


@pytest.mark.parametrize(("up", "down"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1)])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("flips", [(True, False), (False, True)])
def test_a_convolution_between_resamplings(offered, up, down, size, groups, flips):
    """However it changes the order of its steps, it is downsampling after convolution after upsampling."""
    flip_weight, flip_filter = flips
    generator = torch.Generator().manual_seed(0)
    x, w, f = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((2, 4, 9, 7), (6, 4 // groups, size, size), (4, 4))
    )
    padding = [1, 2, 0, 1]
    result = offered("torch_utils.ops.conv2d_resample").conv2d_resample(
        x, w, f, up, down, padding, groups, flip_weight, flip_filter
    )
    pads = [p + (1 if up > 1 else 0) * q for p, q in zip(padding, [(4 + up - 1) // 2, (4 - up) // 2] * 2, strict=True)]
    pads = [
        p + (1 if down > 1 else 0) * q for p, q in zip(pads, [(4 - down + 1) // 2, (4 - down) // 2] * 2, strict=True)
    ]
    spread = plain_formulas.upfirdn2d(x, f if up > 1 else None, up, 1, pads, flip_filter, up**2)
    convolved = functional.conv2d(spread, w if flip_weight else w.flip((2, 3)), groups=groups)
    expected = plain_formulas.upfirdn2d(convolved, f if down > 1 else None, 1, down, 0, flip_filter)
    torch.testing.assert_close(result, expected)


def test_the_small_operators(offered):
    fma, grid = offered("torch_utils.ops.fma"), offered("torch_utils.ops.grid_sample_gradfix")
    fixed, bias_act = offered("torch_utils.ops.conv2d_gradfix"), offered("torch_utils.ops.bias_act")
    a, b, c = torch.randn(2, 3), torch.randn(3), torch.randn(2, 1)
    torch.testing.assert_close(fma.fma(a, b, c), a * b + c)
    assert fixed.conv2d is functional.conv2d
    with fixed.no_weight_gradients(), fixed.no_weight_gradients(False):
        assert fixed.weight_gradients_disabled
    assert not fixed.weight_gradients_disabled
    points = torch.tensor([[[[-0.5, -0.5], [0.5, 0.5]]]])
    assert grid.grid_sample(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), points).tolist() == [[[[1, 4]]]]
    assert bias_act.activation_funcs["lrelu"].def_gain == 2**0.5
    torch.testing.assert_close(bias_act.bias_act(a, b, act="swish", clamp=-1), functional.silu(a + b) * 2**0.5)


def test_misc(offered, capsys):
    misc = offered("torch_utils.misc")
    first = misc.constant([1, 2], dtype=torch.float64)
    assert first is misc.constant([1, 2], dtype=torch.float64)
    assert misc.constant(3.0, shape=[2, 2]).tolist() == [[3, 3], [3, 3]]
    assert misc.nan_to_num(torch.tensor([float("nan")])).item() == 0
    with pytest.raises(AssertionError, match="not so"):
        misc.symbolic_assert(torch.tensor(False), "not so")
    with misc.suppress_tracer_warnings():
        warnings.warn("hidden", torch.jit.TracerWarning, stacklevel=1)
    misc.assert_shape(torch.ones(2, 3), [None, 3])
    with pytest.raises(AssertionError):
        misc.assert_shape(torch.ones(2, 3), [2])

    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    other = nn.Sequential(nn.Linear(2, 3))
    assert len(misc.params_and_buffers(network)) == len(misc.named_params_and_buffers(network)) == 7
    with torch.no_grad():
        misc.copy_params_and_buffers(network, other, require_all=True)
        torch.testing.assert_close(other[0].weight, network[0].weight)
        with pytest.raises(KeyError, match=r"1\.weight: got no such tensor"):
            misc.copy_params_and_buffers(other, network, require_all=True)
    with misc.ddp_sync(network, sync=False):
        pass
    assert misc.print_module_summary(network, [torch.ones(4, 2)]).shape == (4, 3)
    assert "[4, 3]" in capsys.readouterr().out


def test_an_endless_sampler_shares_out_a_data_set(offered):
    sampler = offered("torch_utils.misc").InfiniteSampler
    data = range(10)
    ordered = itertools.islice(iter(sampler(data, shuffle=False)), 12)
    assert list(ordered) == [*range(10), 0, 1]
    parts = [list(itertools.islice(iter(sampler(data, rank, 2)), 5)) for rank in (0, 1)]
    together = itertools.chain(*zip(*parts, strict=True))
    assert list(together) == list(itertools.islice(iter(sampler(data)), 10))
    assert list(itertools.islice(iter(sampler(data)), 30)) != list(range(10)) * 3


def test_persistence(offered, monkeypatch):
    persistence = offered("torch_utils.persistence")
    monkeypatch.setattr(persistence, "_hooks", [])
    source = "from torch_utils import persistence\n\n@persistence.persistent_class\nclass Thing:\n    pass\n"
    meta = {"type": "class", "version": 6, "module_src": source, "class_name": "Thing", "state": {"a": 1}}
    thing = persistence._reconstruct_persistent_obj(meta)
    assert thing.a == 1
    assert persistence.is_persistent(thing)
    assert persistence.persistent_class(type(thing)) is type(thing)
    assert not persistence.is_persistent(3)
    persistence.import_hook(lambda meta: type(meta)(meta, state={"a": 2}))
    assert persistence._reconstruct_persistent_obj(meta).a == 2
    with pytest.raises(ValueError, match="got class of version 7, takes class of 6 or less"):
        persistence._reconstruct_persistent_obj(meta | {"version": 7})
    del sys.modules[type(thing).__module__]
