"""Call a function for each of many items, in several threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def results_of(
    function: Callable[[_Item], _Result], items: Sequence[_Item], size: Callable[[_Item], int], jobs: int
) -> list[_Result]:
    """Return what `function` returns for each item, in their order; `jobs` threads take the largest items first.

    Everything is done in this thread if no other can be started: a limit of processes (`ulimit -u`) counts threads too.
    """
    if jobs == 1 or len(items) < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(min(jobs, len(items)))
    order = sorted(range(len(items)), key=lambda index: size(items[index]), reverse=True)
    pending: dict[int, Future[_Result]] = {}
    try:
        for index in order:
            pending[index] = pool.submit(function, items[index])
    except RuntimeError:
        pool.shutdown(wait=False, cancel_futures=True)
        return [function(item) for item in items]
    try:
        return [pending[index].result() for index in range(len(items))]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
