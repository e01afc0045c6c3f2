"""Resampling of images and arrays by rational factors, without a change of type."""

from .functions import pyramid, resample, resize

__all__ = ["pyramid", "resample", "resize"]
