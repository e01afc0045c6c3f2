"""The one home of benchmarks: every case against a copy of the same bytes and against its peers, in one run.

`measure` times; `cases`, `torch_cases`, `scaling` and `memory` say what, `peers` against whom, `goals` what is asked;
`worker` runs what needs a process of its own; `report` and `plots` show it.
"""

from .command import main

__all__ = ["main"]
