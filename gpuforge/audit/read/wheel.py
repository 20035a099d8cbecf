"""Read wheels in threads: the facts of each, or the error that reading it raised; nothing is unpacked to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from gpuforge.audit.elf_patterns import WheelPatterns
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.scan import Scanned, binaries, scan
from gpuforge.audit.read.scan_pe import dlls, scan_pe
from gpuforge.errors import MalformedError, MissingError, TooLargeError
from gpuforge.wheel.archive import Archive, Member

if TYPE_CHECKING:
    from gpuforge.audit.model import WheelFacts

    Outcome = WheelFacts | MalformedError | TooLargeError | MemoryError | OSError


_Read = TypeVar("_Read")
_THREADS = 4  # each keeps up to 30 MB of a member in memory


@contextmanager
def reading(
    given: Sequence[Input], patterns: WheelPatterns, jobs: int = 1, watch: Watch | None = None
) -> Iterator[Callable[[], list[Outcome]]]:
    """Start reading the inputs, and yield a function that waits for the facts of each, or for the error of reading it.

    The names of `patterns` are looked for in their binaries. `jobs` threads share the members of a single wheel; of
    several wheels, each is read by one thread.
    """
    jobs = min(jobs, _THREADS)
    sizes = [_size(one) for one in given]
    if watch:
        watch.expects(sizes)
    with ExitStack() as stack:
        if len(given) == 1:
            wheel = _outcome(
                partial(_begun, 0, given[0], watch, partial(opened, given[0], patterns, jobs, stack))
            )
            yield lambda: [_outcome(partial(_facts, wheel)) if isinstance(wheel, OpenWheel) else wheel]
            return

        def read_alone(number: int) -> Outcome:
            outcome = _outcome(
                partial(_begun, number, given[number], watch, partial(read, given[number], patterns))
            )
            if watch:
                watch.ends(number)
            return outcome

        wait = stack.enter_context(started(read_alone, range(len(given)), sizes.__getitem__, jobs))
        # if memory is short, other threads may have taken it: without them it suffices, or never will
        yield lambda: [read_alone(n) if isinstance(o, MemoryError) else o for n, o in enumerate(wait())]


def read(given: Path | Input, patterns: WheelPatterns, jobs: int = 1) -> WheelFacts:
    """Read a wheel, or an input that counts as one.

    Raises MalformedError for a file that is not a wheel or a broken one, OSError when it cannot be read.
    """
    source = given if isinstance(given, Input) else Input.of(given)
    with ExitStack() as stack:
        return _facts(opened(source, patterns, jobs, stack))


def _facts(wheel: OpenWheel) -> WheelFacts:
    from gpuforge.audit.read.facts import facts  # noqa: PLC0415  loaded while the threads read

    return facts(wheel)


def _begun(number: int, source: Input, watch: Watch | None, function: Callable[[], _Read]) -> _Read:
    """Tell the observer that an input is read, and read it. Raises TooLargeError if it must not be read."""
    if source.too_large:
        raise TooLargeError.of(source.too_large)
    if watch:
        if reason := watch.refuses(number):
            raise TooLargeError.of(reason)
        watch.begins(number, _size(source))
    return function()


def _outcome(function: Callable[[], _Read]) -> _Read | MalformedError | TooLargeError | MemoryError | OSError:
    try:
        return function()
    except (MalformedError, TooLargeError, OSError) as error:
        return error
    except MissingError as error:  # an index cannot be reached
        return MalformedError(*error.diagnostics)
    except MemoryError as error:
        from traceback import clear_frames  # noqa: PLC0415  few wheels come here

        clear_frames(error.__traceback__)  # they hold the data that did not fit into memory
        return error
    except Exception as error:  # noqa: BLE001  whatever a wheel raises is its own error: the others are still judged
        return fault(error)


def fault(error: Exception) -> MalformedError:
    """Return the error for a wheel that reveals a fault of gpuforge."""
    return MalformedError.of(
        f"gpuforge itself failed at it: {type(error).__name__}: {error}",
        hint="this is a bug; report it with the file",
    )


def _size(source: Input) -> int:
    try:
        return source.on_disk
    except (OSError, ValueError, MalformedError):  # reported when it is read
        return 0


class OpenWheel(NamedTuple):
    """A wheel, or an input that counts as one, whose binaries are being read; `scanned` waits for them."""

    source: Input
    archive: Archive
    binaries: Sequence[Member]
    scanned: Callable[[], Sequence[Scanned]]


def opened(source: Input, patterns: WheelPatterns, jobs: int, stack: ExitStack) -> OpenWheel:
    """Open an input, in whose binaries names are looked for; `stack` closes it and ends the threads, `jobs` at most."""
    archive = stack.enter_context(source.open())
    outline = bool(source.remote and source.remote.outline)
    claims = source.claims
    tagged = any(tag.platform.startswith("win") for tag in claims.tags)
    windows = [] if outline or (claims.tags and not tagged) else dlls(archive, named=not tagged)
    members = [] if outline else binaries(archive) + windows
    names = {member.name for member in windows}

    def scan_member(member: Member) -> Scanned:
        if member.name in names:
            return scan_pe(archive, member)
        return scan(archive, member, source.label, patterns.of(claims, member.name))

    threads = started(scan_member, members, attrgetter("size"), jobs)
    return OpenWheel(source, archive, members, stack.enter_context(threads))


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


class Watch(Protocol):
    """Inputs are identified by numbers, in the order in which they were found."""

    def expects(self, sizes: Sequence[int]) -> None:
        """Note the inputs that will be read, by their sizes in bytes, before the first is."""
        ...

    def refuses(self, number: int) -> str:
        """Return why an input must not be read; "" to read it."""
        ...

    def unpacking(self, size: int, count: int) -> AbstractContextManager[None]:
        """Note that an archive of wheels is unpacked, one of `count` paths, before any input is read.

        Raises TooLargeError if that takes too long.
        """
        ...

    def begins(self, number: int, size: int) -> None:
        """Note that an input of `size` bytes is being read."""
        ...

    def ends(self, number: int) -> None:
        """Note that an input was read."""
        ...
