"""Reports the progress of a download as lines of a log, not one for each step."""

import time
from collections.abc import Callable

Say = Callable[[str], object]
PAUSE_S = 2.0  # seconds between lines about one download


def quiet(_: str) -> None:
    """Ignore the line."""


class Progress:
    """Passes a line such as "  12 of 117 MB" to `say`, at most one every two seconds."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._shown = time.monotonic()

    def report(self, done: int, whole: int | None) -> None:
        """Report that `done` bytes of `whole` are here; None if the size is not known."""
        if time.monotonic() - self._shown > PAUSE_S:
            self._shown = time.monotonic()
            self._say(f"  {done / 1e6:.0f} of {whole / 1e6:.0f} MB" if whole else f"  {done / 1e6:.0f} MB")
