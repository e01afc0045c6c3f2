"""The exceptions firelu raises; a message names operator, argument, what it got and what it takes."""


class FireluError(Exception):
    """The base of every error firelu raises."""


class ShapeError(FireluError, ValueError):
    """A shape does not fit."""


class DTypeError(FireluError, TypeError):
    """A data type is not accepted: firelu computes in float16, bfloat16, float32 and float64."""


class ArgumentError(FireluError, ValueError):
    """An argument is unknown, missing, out of range, read-only or overlaps another."""


class UnknownOperatorError(FireluError, KeyError):
    """No operator has this name; the message gives the nearest known ones."""

    def __str__(self) -> str:
        """Give the message as it is, where KeyError would quote it."""
        return str(self.args[0]) if self.args else ""


class NoGradientError(FireluError, NotImplementedError):
    """An operator has no gradient; the message says whether it is forbidden or not written."""


class GradcheckError(FireluError, AssertionError):
    """A gradient differs from what differences give; see `firelu.gradcheck`."""


class DeviceError(FireluError, RuntimeError):
    """A device is missing or failed; the message carries its driver's own words."""


for _class in (
    FireluError,
    ShapeError,
    DTypeError,
    ArgumentError,
    UnknownOperatorError,
    NoGradientError,
    GradcheckError,
    DeviceError,
):
    _class.__module__ = "firelu"
del _class
