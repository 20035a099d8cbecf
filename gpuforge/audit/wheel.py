"""Read a wheel: its names and metadata, its ELF objects, its GPU code; nothing is unpacked to disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gpuforge.audit import ahead
from gpuforge.audit.inputs import Input
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.scan import Scanned, scan
from gpuforge.binary import libc
from gpuforge.binary.facts import DeviceCode
from gpuforge.errors import MalformedError
from gpuforge.wheel import filename
from gpuforge.wheel.archive import Archive, Member
from gpuforge.wheel.dist_info import DistInfo

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_LONG = 32 << 20  # bytes of wheels whose reading leaves time for what may be asked later
_THREADS = 4  # each keeps up to 30 MB of a member in memory


def read(given: Path | Input, pool: Executor | None = None, jobs: int = 1) -> WheelFacts:
    """Read a wheel, or what is taken for one, its members in the threads of `pool` if there is one.

    Without one, `jobs` threads read what was begun ahead. Of a wheel that has libraries, Python code is read, too.
    Raises MalformedError for a file that is no wheel or a broken one, OSError when it cannot be read.
    """
    source = given if isinstance(given, Input) else Input.of(given)
    with contextlib.ExitStack() as stack:
        begun = ahead.taken(source.path, source.label) if source.form == "wheel" else None
        if begun:
            archive = stack.enter_context(begun).archive
            begun.join_in(min(jobs, _THREADS) - 1)
        else:
            archive = stack.enter_context(source.open())
        loose = source.form in {"file", "folder"}
        folders = frozenset() if loose else _info_folders(archive)
        if source.size > ahead.LARGE:
            libc.keep_memory()
        scanning = stack.enter_context(_Scanning(source, archive, pool, begun))
        # these take as long to load as inflating 50 MB: of a large wheel that has begun, and others load them meanwhile
        from gpuforge.audit import kernels, pins, preload  # noqa: PLC0415

        info = DistInfo.of(archive, folders) if folders else DistInfo()
        project, version, tags = (
            filename.claims(PurePosixPath(source.label).name)
            if source.form in {"wheel", "nested"}
            else (info.project, info.version, info.tags)
        )
        toolchains = pins.pins(archive)
        kernel_sets, source_sets = tuple(kernels.kernel_sets(archive)), tuple(kernels.source_sets(archive))
        code = preload.Code(archive)
        searched = preload.Loaders(code)
        # most wheels do without, but of a large one there is time for some of it now
        while source.size >= _LONG and scanning.busy() and searched.step():
            pass
        scanned = scanning.results()
        objects = tuple(s.object for s in scanned if s.object)
        with_libraries = any(o.links for o in objects)
        loaders = searched.all() if with_libraries else ()
        unread = code.damaged if with_libraries else {}  # whether there was time for it tells nothing
        return WheelFacts(
            name=source.label,
            size=source.size or sum(m.size for m in archive.members),
            project=project,
            version=version,
            file_tags=tags,
            wheel_tags=info.tags,
            requires=info.requires,
            python=info.requires_python,
            members={m.name: m.size for m in archive.members},
            checksums={m.name: m.crc for m in archive.members},
            purelib=info.purelib,
            pins=toolchains,
            record=info.record,
            objects=objects,
            device=tuple(DeviceCode(s.file, s.containers) for s in scanned if s.containers),
            kernels=kernel_sets,
            sources=source_sets,
            kernels_wheels=kernels.document(archive, "wheels.json"),
            kernels_wheel=kernels.document(archive, "wheel.json"),
            preloads=loaders,
            metadata_problems=info.problems,
            identities=info.identities,
            damaged={s.file: s.problem for s in scanned if s.problem} | unread,
            corrupt=frozenset(s.file for s in scanned if s.corrupt) | (code.corrupt & unread.keys()),
            form=source.form,
            links=info.links,
        )


def _info_folders(archive: Archive) -> frozenset[str]:
    tops = {member.name.partition("/")[0] for member in archive.members}
    found = frozenset(name for name in tops if name.endswith(".dist-info"))
    if not found:
        raise MalformedError.of("it is a zip file but no wheel: it has no .dist-info folder")
    return found


def read_all(given: Sequence[Input], jobs: int = 1) -> Iterator[WheelFacts | MalformedError | OSError]:
    """Return what is read of each input, in their order, or why it cannot be; the largest are read first.

    `jobs` threads inflate and search, from now on: both let go of the interpreter's lock. What is small is read
    when its result is asked for: threads would take longer to start.
    """
    if not large(given) or (len(given) == 1 and ahead.is_begun(given[0].path)):
        return (_outcome(one, None, jobs) for one in given)
    from gpuforge.audit.threads import Threads  # noqa: PLC0415  as said

    members = Threads(min(jobs, _THREADS)) if jobs > 1 else None
    wheels = Threads(min(jobs, 2, len(given)))
    order = sorted(range(len(given)), key=lambda index: _size(given[index]), reverse=True)
    read_one = partial(_outcome, pool=members)
    pending = {index: wheels.submit(read_one, given[index]) for index in order}
    pools = (wheels, members) if members else (wheels,)
    return _results([pending[index] for index in range(len(given))], pools)


def large(given: Sequence[Input]) -> bool:
    """Say whether reading takes so long that it is worth a thread."""
    return sum(map(_size, given)) >= ahead.LARGE


def _results(
    pending: list[Future[WheelFacts | MalformedError | OSError]], pools: tuple[Executor, ...]
) -> Iterator[WheelFacts | MalformedError | OSError]:
    try:
        for future in pending:
            yield future.result()
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


def _outcome(one: Input, pool: Executor | None, jobs: int = 1) -> WheelFacts | MalformedError | OSError:
    try:
        return read(one, pool, jobs)
    except (MalformedError, OSError) as error:
        return error


def _size(one: Input) -> int:
    try:
        return one.size
    except OSError:  # said when it is read
        return 0


class _Scanning:
    """The binaries of an archive being scanned: in the threads of a pool, or when the results are asked for."""

    def __init__(
        self, source: Input, archive: Archive, pool: Executor | None, begun: ahead.Begun | None
    ) -> None:
        """Give the largest to the pool first; the threads of what was `begun` ahead take from the same binaries."""
        self._begun = begun
        self._binaries = begun.binaries if begun else ahead.Binaries(archive)
        self._scan: Callable[[Member], Scanned] = partial(scan, archive, wheel=source.label)
        self._pending: list[tuple[int, Future[Scanned]]] = []
        if pool is not None:
            with contextlib.ExitStack() as stack:
                stack.push(self.__exit__)
                for index, member in self._binaries:
                    self._pending.append((index, pool.submit(self._scan, member)))
                stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, future in self._pending:
            if not future.cancel():
                future.exception()

    def busy(self) -> bool:
        """Say whether threads are still reading."""
        return self._begun.busy() if self._begun else not all(future.done() for _, future in self._pending)

    def results(self) -> list[Scanned]:
        """Return what they are, in the order of the archive's directory; raises what reading them did."""
        done = [(index, future.result()) for index, future in self._pending]
        done += (
            self._begun.scanned()
            if self._begun
            else [(i, self._scan(member)) for i, member in self._binaries]
        )
        return [scanned for _, scanned in sorted(done, key=lambda each: each[0])]
