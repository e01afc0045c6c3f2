"""Small torch modules that diffusion networks are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from ._arrays import suggestion
from .configuration import instantiate_from_config

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class AlphaBlender(nn.Module):
    """Blends a spatial and a temporal branch: `alpha * x_spatial + (1 - alpha) * x_temporal`.

    alpha, by merge_strategy:

    - `"fixed"`: the buffer `mix_factor`
    - `"learned"`: the sigmoid of the parameter `mix_factor`
    - `"learned_with_images"`: the same, but 1 for the frames that `image_only_indicator` marks

    `mix_factor` has shape `[1]` and is the module's only state. `rearrange_pattern` is the einops pattern
    that brings alpha from `[batch, time]` to a shape that broadcasts over the branches.

    >>> blend = AlphaBlender(0.5, "fixed")
    >>> blend(torch.ones(2, 3), torch.zeros(2, 3))[0]
    tensor([0.5000, 0.5000, 0.5000])
    """

    strategies: ClassVar[list[str]] = ["learned", "fixed", "learned_with_images"]
    mix_factor: Tensor

    def __init__(
        self,
        alpha: float,
        merge_strategy: str = "learned_with_images",
        rearrange_pattern: str = "b t -> (b t) 1 1",
    ) -> None:
        super().__init__()
        if merge_strategy not in self.strategies:
            raise ValueError(
                f"AlphaBlender: merge_strategy must be one of {', '.join(self.strategies)}, got {merge_strategy!r}"
                f"{suggestion(merge_strategy, self.strategies)}"
            )
        self.merge_strategy = merge_strategy
        self.rearrange_pattern = rearrange_pattern
        factor = torch.tensor([float(alpha)])
        if merge_strategy == "fixed":
            self.register_buffer("mix_factor", factor)
        else:
            self.register_parameter("mix_factor", nn.Parameter(factor))

    def extra_repr(self) -> str:
        """Return the strategy and the pattern, for `print(module)`."""
        return f"merge_strategy={self.merge_strategy!r}, rearrange_pattern={self.rearrange_pattern!r}"

    def get_alpha(self, image_only_indicator: Tensor | None = None) -> Tensor:
        """Return the spatial weight, shape `[1]`, or rearranged for `"learned_with_images"`.

        `image_only_indicator`, shape `[batch, time]`, is true (or not 0) for frames that are single images.
        Only `"learned_with_images"` reads it, and raises `ValueError` without it.
        """
        if self.merge_strategy == "fixed":
            return self.mix_factor
        learned = torch.sigmoid(self.mix_factor)
        if self.merge_strategy == "learned":
            return learned
        if image_only_indicator is None:
            raise ValueError("AlphaBlender: the strategy 'learned_with_images' needs image_only_indicator")
        learned = learned.to(image_only_indicator.device)
        return _rearrange(torch.where(image_only_indicator.bool(), 1.0, learned), self.rearrange_pattern)

    def forward(self, x_spatial: Tensor, x_temporal: Tensor, image_only_indicator: Tensor | None = None) -> Tensor:
        """Return the blend, in the shape of the two branches and `x_spatial`'s dtype, on its device."""
        alpha = self.get_alpha(image_only_indicator).to(x_spatial)
        return alpha * x_spatial + (1.0 - alpha) * x_temporal


def _rearrange(tensor: Tensor, pattern: str) -> Tensor:
    try:
        from einops import rearrange  # only one of three strategies needs it
    except ModuleNotFoundError as error:
        if error.name != "einops":
            raise
        raise ImportError(
            'AlphaBlender: rearrange_pattern needs einops, which is missing: pip install "firelu[torch]"',
            name="einops",
        ) from error
    return rearrange(tensor, pattern)


def zero_module(module: ModuleT) -> ModuleT:
    """Set every parameter of `module` to 0, in place, and return it: a block that initially outputs zero.

    >>> zero_module(nn.Linear(2, 1)).weight.tolist()
    [[0.0, 0.0]]
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    return module


def scale_module(module: ModuleT, scale: float) -> ModuleT:
    """Multiply every parameter of `module` by `scale`, in place, and return it.

    A parameter that two submodules share is scaled once.

    >>> layer = scale_module(nn.Linear(2, 1), 0.5)
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(scale)
    return module


def avg_pool_nd(dims: int, *args: object, **kwargs: object) -> nn.Module:
    """Return `nn.AvgPool1d`, `2d` or `3d` for `dims` 1, 2 or 3, made with the other arguments.

    >>> avg_pool_nd(2, kernel_size=2)(torch.ones(1, 3, 8, 8)).shape
    torch.Size([1, 3, 4, 4])
    """
    pools: dict[int, type[nn.Module]] = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
    if dims not in pools:
        raise ValueError(f"avg_pool_nd: dims must be 1, 2 or 3, got {dims!r}")
    return pools[dims](*args, **kwargs)


class HybridConditioner(nn.Module):
    """Two conditioners side by side: one to concatenate with the input, one for cross-attention.

    Each configuration is one for `instantiate_from_config`; `allowed` is its allow-list.

    >>> conditioner = HybridConditioner({"target": "torch.nn.Identity"}, {"target": "torch.nn.Identity"})
    >>> sorted(conditioner(torch.ones(1), torch.ones(2)))
    ['c_concat', 'c_crossattn']
    """

    def __init__(
        self,
        c_concat_config: Mapping[str, object],
        c_crossattn_config: Mapping[str, object],
        *,
        allowed: Iterable[str] | None = None,
    ) -> None:
        super().__init__()
        allowed = None if allowed is None else [allowed] if isinstance(allowed, str) else list(allowed)
        self.concat_conditioner = instantiate_from_config(c_concat_config, allowed=allowed)
        self.crossattn_conditioner = instantiate_from_config(c_crossattn_config, allowed=allowed)

    def forward(self, c_concat: Tensor, c_crossattn: Tensor) -> dict[str, list[Tensor]]:
        """`{"c_concat": [...], "c_crossattn": [...]}`, each list holding its conditioner's output."""
        return {
            "c_concat": [self.concat_conditioner(c_concat)],
            "c_crossattn": [self.crossattn_conditioner(c_crossattn)],
        }
