"""Threads that read: as many as can be started, which may be none where processes are limited."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Threads(Executor):
    """Up to `count` threads that take what is submitted in its order; without any it is done when it is submitted.

    Limits of processes count threads, too (`ulimit -u`, a container's pids limit); `ThreadPoolExecutor` raises there
    after it has queued the task. These end with the program: who is interrupted need not wait for them.
    """

    def __init__(self, count: int) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._lock = Lock()
        self._over = False
        with contextlib.suppress(RuntimeError):  # what CPython raises when no thread can be started
            for _ in range(count):
                thread = Thread(target=self._work, daemon=True)
                thread.start()
                self._threads.append(thread)

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Have a function called, and return what will have its result. Raises RuntimeError after `shutdown`."""
        future: Future[_T] = Future()
        task = partial(fn, *args, **kwargs)
        if not self._threads:
            _call(future, task)
            return future
        with self._lock:
            if self._over:
                raise RuntimeError("nothing is called after shutdown")
            self._tasks.put((future, task))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end, after what was submitted or, if that is cancelled, after what they are at."""
        with self._lock:
            self._over = True
            with contextlib.suppress(Empty):
                while cancel_futures:
                    if task := self._tasks.get_nowait():
                        task[0].cancel()
            for _ in self._threads:
                self._tasks.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while task := self._tasks.get():
            _call(*task)


def _call(future: Future[_T], task: Callable[[], _T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(task())
    except Exception as error:  # noqa: BLE001  raised where the result is asked for
        future.set_exception(error)
