"""What networks are made of, on `firelu.Tensor`."""

from . import functional

__all__ = ["functional"]
