"""Runs an audit in a process whose processor time and memory the kernel limits, against hostile files.

The readers' budgets end most attacks with a finding. This ends the unforeseen ones: if the process is ended, the input
that it was reading is left out of the next process, which reports it as too large to judge.
"""

import math
import mmap
import os
import resource
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from gpuforge.cli.terminal import complain, drop_output
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import TooLargeError

CPU_SECONDS = 8  # for any audit
CPU_SECONDS_PER_INPUT = 0.05  # in addition
INPUT_BYTES_PER_SECOND = 2 << 20  # of inputs, which may unpack to forty times their size
LEAST_CPU_SECONDS = 1  # that a process needs for any judgement
SHARE_OF_UNPACKING = 0.5  # of CPU_SECONDS, for all archives of wheels; their sizes allow more
SHARE_OF_RULES = 0.25  # of the time that is left, for the work after reading
SHORTEST_TIMER_SECONDS = 0.001
DATA_BYTES = 440 << 20  # with the code of Python and its libraries less than 512 MiB
MOST_INPUTS = 1 << 20  # that are watched
_REASON = "it takes more time or memory than files of its size may take"
_INTERRUPTED = 130
_NO_MEMORY = 113  # the status of a process that ran out of it
_DOUBLE = struct.Struct("d")


class Watched:
    """The inputs that are being read, and the time that they allow, in memory that parent and child share."""

    def __init__(
        self, refused: frozenset[int] = frozenset(), jobs: int | None = None, most: float = math.inf
    ) -> None:
        """Leave out the inputs numbered in `refused`; read the others with `jobs` threads in `most` seconds."""
        self.refused, self.jobs = refused, jobs
        self._states = mmap.mmap(-1, MOST_INPUTS)  # of each input: 0, 1 while it is read, 2
        self._shared = mmap.mmap(-1, _DOUBLE.size)  # the seconds that all inputs so far allow
        self._most = most
        self._expected = 0.0  # seconds that the inputs which have not been begun may take
        self._is_limited = False
        self._allow(CPU_SECONDS)

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
        return float(_DOUBLE.unpack(self._shared[:])[0])

    def expects(self, sizes: Sequence[int]) -> None:
        """Note the inputs that will be read, by their sizes in bytes."""
        self._expected = sum(_may_take(size) for n, size in enumerate(sizes) if n not in self.refused)

    def refuses(self, number: int) -> str:
        """Return why an input is left out, "" if it is not."""
        return _REASON if number in self.refused else ""

    @contextmanager
    def unpacking(self, size: int, count: int) -> Iterator[None]:
        """Allow the time in which an archive of this size, one of `count` paths, must be unpacked."""
        own = _may_take(size)
        self._allow(self.allowed + own)
        if self._is_limited:
            seconds = own + CPU_SECONDS * SHARE_OF_UNPACKING / count
            signal.setitimer(signal.ITIMER_PROF, seconds, CPU_SECONDS_PER_INPUT)
        try:
            yield
        finally:
            if self._is_limited:
                signal.setitimer(signal.ITIMER_PROF, 0)

    def begins(self, number: int, size: int) -> None:
        """Note that an input is being read, and allow the time that one of its size may take.

        If inputs are read one by one, each may take its share of the remaining time, less a reserve for the rules.
        """
        self._note(number, 1)
        own = _may_take(size)
        self._allow(self.allowed + own)
        share = own / max(own, self._expected)
        self._expected -= own
        left = (min(self.allowed, self._most) - time.process_time()) * (1 - SHARE_OF_RULES)
        self._set_timer(max(left * share, SHORTEST_TIMER_SECONDS))

    def ends(self, number: int) -> None:
        """Note that an input was read."""
        self._set_timer(0)
        self._note(number, 2)

    def limit(self) -> None:
        """Limit this process from now on."""
        self._is_limited = True
        signal.signal(signal.SIGPROF, _give_up)
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_DATA, DATA_BYTES)
        self._allow(self.allowed)

    def wait_at_most(self, seconds: float) -> None:
        """Let the kernel end this process after so many seconds, as a server may not answer."""
        if self._is_limited:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _set_timer(self, seconds: float) -> None:
        """Let `_give_up` be called after so much processor time; several threads have no such limit for one input."""
        if self._is_limited and self.jobs == 1:
            signal.setitimer(signal.ITIMER_PROF, seconds, CPU_SECONDS_PER_INPUT)

    def _note(self, number: int, state: int) -> None:
        if number < MOST_INPUTS:
            self._states[number] = state

    def _allow(self, seconds: float) -> None:
        self._shared[:] = _DOUBLE.pack(seconds)
        if self._is_limited:
            _lower(resource.RLIMIT_CPU, max(1, math.ceil(min(seconds, self._most))))


Work = Callable[[Watched], int]  # reads inputs, and returns the exit status


def run(work: Work) -> int:
    """Do the work in a separate process and return its status; repeat it without inputs that end the process.

    All processes after the first together may take as much time as the first.
    """
    watched, began, allowed = Watched(), _spent(), 0.0
    while True:
        status = _in_child(work, watched)
        if status >= 0:
            return status
        allowed = allowed or 2 * max(watched.allowed, _spent() - began)
        timed_out = status == -signal.SIGALRM
        found = watched.being_read if timed_out else _culprits(work, watched, allowed + began - _spent())
        left = allowed + began - _spent()
        can_repeat = found - watched.refused or (watched.jobs is None and not timed_out)
        if left < LEAST_CPU_SECONDS or not can_repeat:
            complain([Diagnostic(f"too large to judge: {_REASON}", hint="audit fewer inputs at once")])
            return 2
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
    most = left / 2 / len(suspects)
    if most < LEAST_CPU_SECONDS:
        return frozenset()
    alone = {n: Watched(every - {n}, jobs=1, most=most) for n in suspects}
    return frozenset(n for n, watched in alone.items() if _in_child(work, watched, heard=False) < 0)


def _in_child(work: Work, watched: Watched, *, heard: bool = True) -> int:
    """Do the work in a limited process; return its exit status, or minus the signal that ended it.

    Unless it is `heard`, its output is dropped, and its status does not count.
    """
    child = os.fork()
    if not child:
        try:
            if not heard:
                drop_output(1, 2)
            _within_limits(work, watched)
        finally:
            if not heard:
                os._exit(0)
    try:
        _, status = os.waitpid(child, 0)
    except KeyboardInterrupt:  # the child gets it from the terminal, too, and reports it
        os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)
        return _INTERRUPTED
    code = os.waitstatus_to_exitcode(status)
    return -signal.SIGKILL if code == _NO_MEMORY else code


def _within_limits(work: Work, watched: Watched) -> NoReturn:
    """Do the work and end the process at once: the output is written, and unloading modules takes 10 ms."""
    watched.limit()
    try:
        os._exit(work(watched))
    except MemoryError:
        os._exit(_NO_MEMORY)  # without its output, as after a signal


def _give_up(number: int, frame: FrameType | None) -> None:
    raise TooLargeError.of(_REASON)


def _may_take(size: int) -> float:
    return CPU_SECONDS_PER_INPUT + size / INPUT_BYTES_PER_SECOND


def _spent() -> float:
    """Return the processor time of all children that ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lower(what: int, limit: int) -> None:
    """Set a limit, but not above the caller's own."""
    _, hardest = resource.getrlimit(what)
    resource.setrlimit(what, (limit if hardest == resource.RLIM_INFINITY else min(limit, hardest), hardest))
