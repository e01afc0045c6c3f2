"""A dictionary that stays small."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(dict[Key, Value]):
    """Forgets its oldest entry where it would have more than ``limit``: what is kept can be made again."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        """Keep an entry. Threads may do so at once: each forgets at least as much as it adds."""
        for oldest in list(self)[: max(0, len(self) - self.limit + 1)]:
            self.pop(oldest, None)
        super().__setitem__(key, value)
