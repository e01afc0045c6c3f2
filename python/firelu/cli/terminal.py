"""What a terminal gets (colour, a progress bar) and what a file or a pipe gets (plain lines)."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_BAR_WIDTH = 24


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Give standard output, and have a place for what is written where it was closed, as by `firelu ops >&-`."""
    # Python then has None for the stream, though types say otherwise.
    if (stream := sys.stdout) is not None:
        yield stream
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield nowhere


class Terminal:
    """Writes to a stream; colour and bars only where a person watches, and never against NO_COLOR."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self.colour = self.live and not os.environ.get("NO_COLOR")
        self.width = max(60, shutil.get_terminal_size().columns) if self.live else 100

    def style(self, text: str, *names: str) -> str:
        """Give the text its colours, where there are any."""
        if not self.colour or not names:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"

    def line(self, text: str = "") -> None:
        """Write one line."""
        self.stream.write(text + "\n")

    def heading(self, text: str) -> None:
        """Write the title of what follows."""
        self.line(self.style(text, "bold"))

    def paragraph(self, text: str, indent: int = 2) -> None:
        """Write a text that is wrapped to the width and indented."""
        for line in textwrap.wrap(text, self.width - indent) or [""]:
            self.line(" " * indent + line)

    def pairs(self, rows: Sequence[tuple[str, str]], indent: int = 2) -> None:
        """Write names and values in two columns; a long value goes on below itself."""
        left = max((len(name) for name, _ in rows), default=0) + 2
        for name, value in rows:
            first, *rest = textwrap.wrap(value, max(20, self.width - indent - left)) or [""]
            self.line(" " * indent + self.style(name.ljust(left), "cyan") + first)
            for line in rest:
                self.line(" " * (indent + left) + line)

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 2) -> None:
        """Write a table whose columns are as wide as they need to be."""
        widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]
        for number, row in enumerate([titles, *rows]):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            text = "  ".join(cells).rstrip()
            self.line(" " * indent + (self.style(text, "dim") if number == 0 else text))

    @contextmanager
    def progress(self, total: int) -> Iterator[Progress]:
        """Show how far a long job is: a bar that is redrawn, or one line for each step."""
        progress = Progress(self, total)
        try:
            yield progress
        finally:
            progress.clear()


class Progress:
    """How far a job is. `step` says what begins now."""

    def __init__(self, terminal: Terminal, total: int) -> None:
        self._terminal, self._total, self._done = terminal, total, 0

    def step(self, what: str) -> None:
        """Say what begins now; what began before is done."""
        self._done += 1
        if not self._terminal.live:
            self._terminal.line(f"[{self._done}/{self._total}] {what}")
            return
        full = _BAR_WIDTH * (self._done - 1) // self._total
        bar = self._terminal.style("━" * full, "green") + self._terminal.style("━" * (_BAR_WIDTH - full), "dim")
        room = self._terminal.width - _BAR_WIDTH - 10
        self._terminal.stream.write(f"\r\x1b[2K{bar} {self._done}/{self._total} {what[:room]}")
        self._terminal.stream.flush()

    def clear(self) -> None:
        """Take the bar away."""
        if self._terminal.live:
            self._terminal.stream.write("\r\x1b[2K")
            self._terminal.stream.flush()
