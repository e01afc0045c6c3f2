"""What network pickles use of a package of this name."""

from . import util
from .util import EasyDict

__all__ = ["EasyDict", "util"]
