"""Resampling of pictures and arrays by rational factors, in the types they have."""

from .functions import pyramid, resample, resize

__all__ = ["pyramid", "resample", "resize"]
