"""Tests that run in several threads."""

import threading
from collections.abc import Callable

COUNT = 8


def in_threads(work: Callable[[int], None]) -> None:
    """Call `work` with 0 to 7, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
