"""What importing the helpers loads, and what they say where torch is missing."""

import doctest
import importlib
import subprocess
import sys

import firelu.diffusion
import pytest

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; "
NEED_TORCH = [
    "AlphaBlender",
    "CheckpointFunction",
    "HybridConditioner",
    "avg_pool_nd",
    "checkpoint",
    "scale_module",
    "zero_module",
]


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_loads_neither_torch_nor_what_only_a_call_needs():
    loaded = run("import sys, firelu.diffusion; print(*sys.modules)").split()
    assert "firelu.diffusion" in loaded
    assert not {"torch", "einops", "array_api_compat"} & set(loaded)


def test_numpy_calls_and_a_star_import_do_not_load_torch():
    code = (
        "import sys; from firelu.diffusion import *; make_beta_schedule('cosine', 10); noise_like((2, 3)); "
        "mean_flat([[1.0]]); timestep_embedding([1.0], 4); extract_into_tensor([0.1], [0], (1, 2)); "
        "make_ddim_sampling_parameters([0.9, 0.8], make_ddim_timesteps('quad', 1, 2, False), 0.0, False); "
        "rescale_zero_terminal_snr([0.1, 0.2]); instantiate_from_config({'target': 'fractions.Fraction'}); "
        "print('torch' in sys.modules)"
    )
    assert run(code) == "False"


@pytest.mark.parametrize("name", NEED_TORCH)
def test_a_missing_torch_is_explained(name):
    code = (
        WITHOUT_TORCH + "import firelu.diffusion\n"
        f"try:\n    from firelu.diffusion import {name}\nexcept ImportError as error:\n    print(error)"
    )
    assert run(code) == (f'firelu.diffusion.{name} needs torch, which is not installed: pip install "firelu[torch]"')


def test_missing_torch_for_noise_on_a_device():
    code = (
        WITHOUT_TORCH + "from firelu.diffusion import noise_like\n"
        "try:\n    noise_like((2,), 'cpu')\nexcept ImportError as error:\n    print(error)"
    )
    assert run(code) == 'noise_like needs torch, which is not installed: pip install "firelu[torch]"'


def test_every_name_is_listed_and_documented():
    pytest.importorskip("torch", reason="the names that need torch cannot be looked up without it")
    names = {*firelu.diffusion.__all__, *NEED_TORCH}
    assert names <= set(dir(firelu.diffusion))
    for name in names:
        value = getattr(firelu.diffusion, name)
        assert value.__doc__, name
        if name not in ("StepRangeError", "CheckpointFunction"):
            assert ">>>" in value.__doc__, name


@pytest.mark.parametrize("module", ["checkpointing", "configuration", "embeddings", "modules", "sampling", "schedules"])
def test_the_examples_in_the_docstrings(module):
    pytest.importorskip("torch", reason="some of the docstrings' examples use torch")
    result = doctest.testmod(importlib.import_module(f"firelu.diffusion.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'alpha_blender'"):
        firelu.diffusion.alpha_blender  # noqa: B018
