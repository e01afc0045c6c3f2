"""What the drop-in leaves to the projects' own code while they run: said once, and listed by `status`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator


class Fallbacks:
    """Reasons by what they are about, each told by one warning."""

    def __init__(self) -> None:
        """Begin with none."""
        self._reasons: dict[tuple[str, str], None] = {}
        self._lock = threading.Lock()

    def tell(self, what: str, why: str) -> None:
        """Warn that the project's own code computes ``what``; a second time nothing happens."""
        with self._lock:
            if (what, why) in self._reasons:
                return
            self._reasons[what, why] = None
        # The caller of the project's function: below are this one, `tell`, the replacement and the function itself.
        warnings.warn(f"firelu.compat leaves {what} to the project's own code: {why}", RuntimeWarning, stacklevel=5)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Go through the pairs of what and why."""
        return iter(list(self._reasons))
