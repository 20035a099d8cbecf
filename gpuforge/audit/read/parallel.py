"""Call a function for each of many items, in several threads."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@contextmanager
def started(
    function: Callable[[_Item], _Result], items: Sequence[_Item], size: Callable[[_Item], int], jobs: int
) -> Iterator[Callable[[], list[_Result]]]:
    """Start calling `function` with each item, and yield a function that waits for the results, in the items' order.

    `jobs` threads take the largest items first. The waiting thread does everything itself if there is one job, or if
    no thread can be started: a limit of processes (`ulimit -u`) counts threads too.
    """
    if jobs == 1 or not items:
        yield lambda: [function(item) for item in items]
        return
    pool = ThreadPoolExecutor(min(jobs, len(items)))
    pending: dict[int, Future[_Result]] = {}
    try:
        for index in sorted(range(len(items)), key=lambda index: size(items[index]), reverse=True):
            pending[index] = pool.submit(function, items[index])
    except RuntimeError:
        pool.shutdown(wait=False, cancel_futures=True)
        yield lambda: [function(item) for item in items]
        return
    try:
        yield lambda: [pending[index].result() for index in range(len(items))]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
