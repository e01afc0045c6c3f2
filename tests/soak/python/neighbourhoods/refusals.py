"""What must be refused."""

from __future__ import annotations

from collections.abc import Callable

import firelu


def refused_for_its_device(operator: str, call: Callable[[], object]) -> None:
    """Make a call that must end in a DeviceError which names the operator."""
    try:
        call()
    except firelu.DeviceError as error:
        if operator not in str(error):
            raise AssertionError(f"{operator} is not named") from error
        return
    raise AssertionError(f"{operator} took tensors of several devices")
