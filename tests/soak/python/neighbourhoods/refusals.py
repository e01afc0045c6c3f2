"""What must be refused."""

from __future__ import annotations

from collections.abc import Callable

import firelu


def refused_for_its_device(operator: str, call: Callable[[], object]) -> None:
    """Make a call that must end in a DeviceError which names the operator."""
    try:
        call()
    except firelu.DeviceError as error:
        assert operator in str(error), f"{operator} is not named: {error}"
        return
    raise AssertionError(f"{operator} took tensors of several devices")
