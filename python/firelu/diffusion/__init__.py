"""Helpers for diffusion models: schedules, DDIM sampling, time embeddings and small torch modules.

Schedules and sampling need numpy alone. Array functions accept numpy arrays or torch tensors and return
the same type. The torch modules (`AlphaBlender`, `checkpoint`, ...) import torch when they are first used, never
before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._arrays import TORCH_MISSING, StepRangeError
from .configuration import instantiate_from_config
from .embeddings import mean_flat, timestep_embedding
from .sampler import ddim_sample
from .sampling import extract_into_tensor, make_ddim_sampling_parameters, make_ddim_timesteps, noise_like
from .schedules import betas_for_alpha_bar, make_beta_schedule, rescale_zero_terminal_snr

if TYPE_CHECKING:
    from .checkpointing import CheckpointFunction as CheckpointFunction
    from .checkpointing import checkpoint as checkpoint
    from .modules import AlphaBlender as AlphaBlender
    from .modules import HybridConditioner as HybridConditioner
    from .modules import avg_pool_nd as avg_pool_nd
    from .modules import scale_module as scale_module
    from .modules import zero_module as zero_module

# Without the torch names, so that a star import neither needs torch nor loads it.
__all__ = [
    "StepRangeError",
    "betas_for_alpha_bar",
    "ddim_sample",
    "extract_into_tensor",
    "instantiate_from_config",
    "make_beta_schedule",
    "make_ddim_sampling_parameters",
    "make_ddim_timesteps",
    "mean_flat",
    "noise_like",
    "rescale_zero_terminal_snr",
    "timestep_embedding",
]

_NEED_TORCH = {
    "AlphaBlender": "modules",
    "CheckpointFunction": "checkpointing",
    "HybridConditioner": "modules",
    "avg_pool_nd": "modules",
    "checkpoint": "checkpointing",
    "scale_module": "modules",
    "zero_module": "modules",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f".{_NEED_TORCH[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(TORCH_MISSING.format(name=f"{__name__}.{name}"), name="torch") from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NEED_TORCH})
