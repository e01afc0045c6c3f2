"""How the axes of an image lie: what is refused because rows and columns would not be what is resampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import ShapeError

NAME_THEM = "pass axes=(0, 1), or axes=(1, 2) where these are no colours"


def refuse_colours_last(operator: str, argument: str, shape: Sequence[int], work: str, remedy: str) -> None:
    """Refuse the shape (H, W, 3) or (H, W, 4), an image's, where the last two axes are meant to be height and width."""
    if len(shape) == 3 and shape[2] in (3, 4) and min(shape[:2]) > 4:
        raise ShapeError(
            f"{operator}: {argument}: got {tuple(shape)}, takes (..., H, W), and would {work} the colours of "
            f"(H, W, {shape[2]}): {remedy}"
        )


def refuse_colours_first(operator: str, argument: str, shape: Sequence[int]) -> None:
    """Refuse the shape (3, H, W) where the colours are meant to be the last axis."""
    if len(shape) == 3 and shape[0] in (1, 3, 4) and min(shape[1:]) > 4:
        raise ShapeError(
            f"{operator}: {argument}: got {tuple(shape)}, takes (H, W, C), and would resample the colours of "
            f'({shape[0]}, H, W): pass layout="CHW", or another name for the channels, as in layout="HWN"'
        )


def image_axes(operator: str, argument: str, shape: Sequence[int], axes: Any, remedy: str = NAME_THEM) -> Any:
    """Give the axes that are named, or the last two, unless these are columns and colours.

    Axes that are named are never refused: whoever names them knows the layout.
    """
    if axes is not None:
        return axes
    refuse_colours_last(operator, argument, shape, "resample", remedy)
    return -2, -1
