"""Read wheels in threads: the facts of each, or the error that reading it raised; nothing is unpacked to disk."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpuforge.audit.read.input import Input
from gpuforge.audit.read.parallel import started
from gpuforge.audit.read.scan import Scanned, binaries, scan
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive, Member

if TYPE_CHECKING:
    from gpuforge.audit.model import WheelFacts

    Outcome = WheelFacts | MalformedError | OSError

_Read = TypeVar("_Read")
_THREADS = 4  # each keeps up to 30 MB of a member in memory


class OpenWheel(NamedTuple):
    """A wheel, or an input that counts as one, whose binaries are being read; `scanned` waits for them."""

    source: Input
    archive: Archive
    binaries: Sequence[Member]
    scanned: Callable[[], Sequence[Scanned]]


@contextmanager
def reading(given: Sequence[Input], jobs: int = 1) -> Iterator[Callable[[], "list[Outcome]"]]:
    """Start reading the inputs, and yield what waits for the facts of each, or the error that reading it raised.

    `jobs` threads share the members of a single wheel; of several wheels, each is read by one thread.
    """
    jobs = min(jobs, _THREADS)
    with ExitStack() as stack:
        if len(given) == 1:
            wheel = _outcome(partial(_opened, given[0], jobs, stack))
            yield lambda: [_outcome(partial(_facts, wheel)) if isinstance(wheel, OpenWheel) else wheel]
        else:
            yield stack.enter_context(started(_read_alone, given, _size, jobs))


def read(given: Path | Input, jobs: int = 1) -> "WheelFacts":
    """Read a wheel, or an input that counts as one.

    Raises MalformedError for a file that is not a wheel or a broken one, OSError when it cannot be read.
    """
    source = given if isinstance(given, Input) else Input.of(given)
    with ExitStack() as stack:
        return _facts(_opened(source, jobs, stack))


def _opened(source: Input, jobs: int, stack: ExitStack) -> OpenWheel:
    archive = stack.enter_context(source.open())
    members = binaries(archive)
    threads = started(partial(scan, archive, wheel=source.label), members, attrgetter("size"), jobs)
    return OpenWheel(source, archive, members, stack.enter_context(threads))


def _facts(wheel: OpenWheel) -> "WheelFacts":
    from gpuforge.audit.read.facts import facts  # noqa: PLC0415  loaded while the threads read

    return facts(wheel)


def _outcome(function: Callable[[], _Read]) -> _Read | MalformedError | OSError:
    try:
        return function()
    except (MalformedError, OSError) as error:
        return error


def _read_alone(source: Input) -> "Outcome":
    return _outcome(partial(read, source))


def _size(source: Input) -> int:
    try:
        return source.size
    except OSError:  # reported when it is read
        return 0
