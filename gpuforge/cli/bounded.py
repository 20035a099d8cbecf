"""Runs an audit in a process whose processor time and memory the kernel limits, against hostile files.

The readers' budgets end most attacks with a finding. This ends the unforeseen ones: if the process is ended, the input
that it was reading is left out of the next process, which reports it as too large to judge.
"""

from __future__ import annotations

import math
import mmap
import os
import resource
import signal
import struct
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from gpuforge.cli.terminal import complain, drop_output
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import TooLargeError

_SECONDS = 8  # of processor time for any audit
_EACH = 0.05  # more for each input
_RESERVE = 0.25  # of the time that is left, for the work after reading
_TICK = 0.001  # seconds of the shortest timer
_BYTES_A_SECOND = 2 << 20  # of the inputs, which may unpack to forty times their size
_MEMORY = 440 << 20  # bytes of data; with the code of Python and its libraries less than 512 MiB
_MOST = 1 << 20  # inputs that are watched
_LEAST = 1  # seconds that a process needs for any judgement
_SECONDS_FORM = struct.Struct("d")
_REASON = "it takes more time or memory than files of its size may take"
_INTERRUPTED = 130
_NO_MEMORY = 113  # the status of a process that ran out of it


class Watched:
    """The inputs that are being read, and the time that they allow, in memory that parent and child share."""

    def __init__(
        self, refused: frozenset[int] = frozenset(), jobs: int | None = None, most: float = math.inf
    ) -> None:
        """Leave out the inputs numbered in `refused`; read the others with `jobs` threads in `most` seconds."""
        self.refused, self.jobs = refused, jobs
        self._states = mmap.mmap(-1, _MOST)  # of each input: 0, 1 while it is read, 2
        self._seconds = mmap.mmap(-1, _SECONDS_FORM.size)  # that all inputs so far allow
        self._most = most
        self._expected = 0.0  # seconds that the inputs which have not been begun may take
        self._limits = False
        self._allow(_SECONDS)

    @property
    def being_read(self) -> frozenset[int]:
        """The inputs that had been begun but not finished."""
        return frozenset(n for n in range(self.begun) if self._states[n] == 1)

    @property
    def begun(self) -> int:
        """The number of inputs that have been begun."""
        return len(self._states[:].rstrip(b"\0"))

    @property
    def allowed(self) -> float:
        """The seconds of processor time that the inputs begun so far allow."""
        return float(_SECONDS_FORM.unpack(self._seconds[:])[0])

    def expects(self, sizes: Sequence[int]) -> None:
        """Note the inputs that will be read, by their sizes in bytes."""
        self._expected = sum(_may_take(size) for n, size in enumerate(sizes) if n not in self.refused)

    def refuses(self, number: int) -> str:
        """Return why an input is left out, "" if it is not."""
        return _REASON if number in self.refused else ""

    def begins(self, number: int, size: int) -> None:
        """Note that an input is being read, and allow the time that one of its size may take.

        If inputs are read one by one, each may take its share of the remaining time, less a reserve for the rules.
        """
        self._note(number, 1)
        own = _may_take(size)
        self._allow(self.allowed + own)
        part = own / max(own, self._expected)
        self._expected -= own
        if self._limits and self.jobs == 1:
            left = (min(self.allowed, self._most) - time.process_time()) * (1 - _RESERVE)
            signal.setitimer(signal.ITIMER_PROF, max(left * part, _TICK), _EACH)

    def ends(self, number: int) -> None:
        """Note that an input was read."""
        if self._limits and self.jobs == 1:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self._note(number, 2)

    def limit(self) -> None:
        """Limit this process from now on."""
        self._limits = True
        signal.signal(signal.SIGPROF, _give_up)
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_DATA, _MEMORY)
        self._allow(self.allowed)

    def wait_at_most(self, seconds: float) -> None:
        """Let the kernel end this process after so many seconds, as a server may not answer."""
        if self._limits:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _note(self, number: int, state: int) -> None:
        if number < _MOST:
            self._states[number] = state

    def _allow(self, seconds: float) -> None:
        self._seconds[:] = _SECONDS_FORM.pack(seconds)
        if self._limits:
            _lower(resource.RLIMIT_CPU, max(1, math.ceil(min(seconds, self._most))))


Work = Callable[[Watched], int]  # reads inputs, and returns the exit status
Within = Callable[[Work], int]  # does the work in some process, and returns its status


def run(work: Work) -> int:
    """Do the work in a separate process and return its status; repeat it without inputs that end the process.

    All processes after the first together may take as much time as the first.
    """
    watched, began, allowed = Watched(), _spent(), 0.0
    while True:
        child = os.fork()
        if not child:
            _within_limits(work, watched)
        status = _status(child)
        if status >= 0:
            return status
        allowed = allowed or 2 * max(watched.allowed, _spent() - began)
        waited = status == -signal.SIGALRM
        found = watched.being_read if waited else _culprits(work, watched, allowed + began - _spent())
        left = allowed + began - _spent()
        if left < _LEAST or not (found - watched.refused or (watched.jobs is None and not waited)):
            return _together()
        watched = Watched(watched.refused | found, jobs=1, most=left / 2)


def _culprits(work: Work, ended: Watched, left: float) -> frozenset[int]:
    """Return the inputs that ended a process: the one that was being read, or those that end a process by themselves.

    If several were being read at the same time, they are tried one by one.
    """
    if ended.being_read:
        return ended.being_read if len(ended.being_read) == 1 else frozenset()
    every = frozenset(range(ended.begun))
    suspects = every - ended.refused
    if len(suspects) < 2:
        return suspects
    each = left / 2 / len(suspects)
    if each < _LEAST:
        return frozenset()
    return frozenset(n for n in suspects if not _is_judged(work, Watched(every - {n}, jobs=1, most=each)))


def _is_judged(work: Work, watched: Watched) -> bool:
    """Return whether the work ends by itself; its output is dropped."""
    child = os.fork()
    if not child:
        _work_unheard(work, watched)
    return _status(child) >= 0


def _work_unheard(work: Work, watched: Watched) -> NoReturn:
    try:
        drop_output(1, 2)
        _within_limits(work, watched)
    finally:
        os._exit(0)


def _within_limits(work: Work, watched: Watched) -> NoReturn:
    """Do the work and end the process at once: the output is written, and unloading modules takes 10 ms."""
    watched.limit()
    try:
        os._exit(work(watched))
    except MemoryError:
        os._exit(_NO_MEMORY)  # without its output, as after a signal


def _together() -> int:
    complain([Diagnostic(f"too large to judge: {_REASON}", hint="audit fewer inputs at once")])
    return 2


def _spent() -> float:
    """Return the seconds of processor time that all ended processes have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _may_take(size: int) -> float:
    """Return the seconds of processor time that an input of so many bytes may take."""
    return _EACH + size / _BYTES_A_SECOND


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TooLargeError.of(_REASON)


def _status(child: int) -> int:
    """Wait for a process, and return its status; negative if a limit or a signal ended it."""
    try:
        _, status = os.waitpid(child, 0)
    except KeyboardInterrupt:  # the child gets it from the terminal, too, and reports it
        os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)
        return _INTERRUPTED
    code = os.waitstatus_to_exitcode(status)
    return -signal.SIGKILL if code == _NO_MEMORY else code


def _lower(what: int, limit: int) -> None:
    """Set a limit, but not above the caller's own."""
    _, hardest = resource.getrlimit(what)
    resource.setrlimit(what, (limit if hardest == resource.RLIM_INFINITY else min(limit, hardest), hardest))
