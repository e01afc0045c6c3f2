"""Leaves a run's numbers as JSON where `make reliability` collects them; else only prints them."""

from __future__ import annotations

import json
import os
import pathlib


def record(name: str, **numbers) -> None:
    """Print numbers, and write them to `$FIRELU_RESULTS/<name>.json` where that is set."""
    print(f"{name}: {numbers}")
    directory = os.environ.get("FIRELU_RESULTS")
    if directory:
        path = pathlib.Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{name}.json").write_text(json.dumps(numbers, indent=2, sort_keys=True) + "\n")


class Tally:
    """Counts calls and refusals of a suite that runs in many small pieces."""

    def __init__(self, name: str):
        self.name, self.calls, self.refused = name, 0, 0

    def attempt(self, function, *args, allowed=(), **kwargs):
        """Call, and give the result, or None where the call was refused by one of the allowed classes."""
        self.calls += 1
        try:
            return function(*args, **kwargs)
        except allowed:
            self.refused += 1
            return None

    def record(self) -> None:
        record(self.name, calls=self.calls, refused=self.refused)
