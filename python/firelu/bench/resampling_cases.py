"""Resampling as image libraries do it: the same kernel against the same kernel, in float32 planes and in uint8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..resampling import resample
from .measure import Array, Case, Run
from .peers import installed

Build = Callable[[bool], Case]

FACTORS = ((1, 2), (1, 3), (2, 3), (2, 1), (4, 1))
SIDE = 2048
# The names that others have for the kernels.
_PILLOW = {"box": "BOX", "triangle": "BILINEAR", "cubic": "BICUBIC", "lanczos3": "LANCZOS"}
_TORCH = {"triangle": "bilinear", "cubic": "bicubic"}


def planes_peers(x: Array, size: tuple[int, int], kernel: str) -> dict[str, Run]:
    """Give the resizing of (C, H, W) float32 to a height and width, by those who have the kernel."""
    peers: dict[str, Run] = {}
    if kernel == "box" and (cv2 := installed("cv2")):
        peers["OpenCV INTER_AREA"] = lambda: np.stack(
            [cv2.resize(plane, size[::-1], interpolation=cv2.INTER_AREA) for plane in x]
        )
    if kernel in _TORCH and (functional := installed("torch.nn.functional")):
        tensor = installed("torch").from_numpy(x)[None]
        peers["torch antialias"] = lambda: functional.interpolate(tensor, size, mode=_TORCH[kernel], antialias=True)[
            0
        ].numpy()
    if kernel == "lanczos3" and (image := installed("PIL.Image")):
        pictures = [image.fromarray(plane) for plane in x]
        peers["Pillow"] = lambda: np.stack([np.asarray(each.resize(size[::-1], image.LANCZOS)) for each in pictures])
    # These two have kernels of their own, which alias or blur: their time is what people spend today.
    if kernel == "cubic" and (transform := installed("skimage.transform")):
        peers["scikit-image resize"] = lambda: transform.resize(x, (len(x), *size), order=3, anti_aliasing=True)
    if kernel == "cubic" and (ndimage := installed("scipy.ndimage")):
        zoom = (1, size[0] / x.shape[1], size[1] / x.shape[2])
        peers["scipy zoom"] = lambda: ndimage.zoom(x, zoom, order=3, mode="grid-constant", grid_mode=True)
    return peers


def pixels_peers(x: Array, size: tuple[int, int], kernel: str) -> dict[str, Run]:
    """Give the resizing of (H, W, 3) uint8 to a height and width."""
    peers: dict[str, Run] = {}
    if image := installed("PIL.Image"):
        picture, name = image.fromarray(x), getattr(image, _PILLOW[kernel])
        peers["Pillow"] = lambda: np.asarray(picture.resize(size[::-1], name))
    if kernel == "box" and (cv2 := installed("cv2")):
        peers["OpenCV INTER_AREA"] = lambda: cv2.resize(x, size[::-1], interpolation=cv2.INTER_AREA)
    if kernel == "lanczos3" and (cv2 := installed("cv2")):
        # Eight taps whatever the factor: shrinking aliases.
        peers["OpenCV INTER_LANCZOS4"] = lambda: cv2.resize(x, size[::-1], interpolation=cv2.INTER_LANCZOS4)
    return peers


def _case(name: str, x: Array, axes: tuple[int, int], factor: tuple[int, int], kernel: str, peers: Any) -> Case:
    out = np.empty_like(resample(x, *factor, axes=axes, kernel=kernel))
    size = out.shape[axes[0]], out.shape[axes[1]]
    return Case(
        name,
        x.nbytes + out.nbytes,
        lambda: resample(x, *factor, axes=axes, kernel=kernel, out=out),
        lambda: resample(x, *factor, axes=axes, kernel=kernel),
        peers(x, size, kernel) if peers else {},
    )


def resampling_cases(side: int = SIDE) -> Iterator[tuple[str, Build]]:
    """Yield the cases by name."""
    for kernel in _PILLOW:
        for up, down in FACTORS:
            name = f"resample {kernel} {up}/{down}"

            def planes(
                with_peers: bool, name: str = name, kernel: str = kernel, up: int = up, down: int = down
            ) -> Case:
                x = np.random.default_rng(0).random((3, side, side), np.float32)
                return _case(name, x, (1, 2), (up, down), kernel, planes_peers if with_peers else None)

            def pixels(
                with_peers: bool, name: str = name, kernel: str = kernel, up: int = up, down: int = down
            ) -> Case:
                x = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
                return _case(f"{name} uint8", x, (0, 1), (up, down), kernel, pixels_peers if with_peers else None)

            yield name, planes
            yield f"{name} uint8", pixels
