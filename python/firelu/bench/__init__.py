"""The one home of benchmarks: every case against a copy of the same bytes and against its peers, in one run.

`measure` times, `cases` says what, `peers` says against whom, `report` prints, saves and draws.
"""

from .command import main

__all__ = ["main"]
