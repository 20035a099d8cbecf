"""Read a wheel: its names and metadata, its ELF objects, its GPU code; nothing is unpacked to disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.audit import ahead, libc
from gpuforge.audit.inflate import Archive, Member
from gpuforge.audit.inputs import Input
from gpuforge.audit.model import DeviceCode, MalformedError, WheelFacts
from gpuforge.audit.scan import Scanned, scan

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_THREADS = 4  # each keeps up to 30 MB of a member in memory


def read(given: Path | Input, pool: Executor | None = None) -> WheelFacts:
    """Read a wheel, or what is taken for one, its members in the threads of `pool` if there is one.

    Raises MalformedError for a file that is no wheel or a broken one, OSError when it cannot be read.
    """
    source = given if isinstance(given, Input) else Input.of(given)
    with contextlib.ExitStack() as stack:
        begun = ahead.taken(source.path, source.label) if source.form == "wheel" else None
        archive = stack.enter_context(begun).archive if begun else stack.enter_context(source.open())
        loose = source.form in {"file", "folder"}
        folders = frozenset() if loose else _info_folders(archive)
        if source.size > ahead.LARGE:
            libc.keep_memory()
        scanned = _scan_all(source, archive, pool, begun)
        # these take as long to load as inflating 50 MB: of a large wheel that has begun, and others load them meanwhile
        from gpuforge.audit import kernels, layout, metadata, pins, policy, preload  # noqa: PLC0415

        objects = tuple(s.object for s in scanned if s.object)
        libraries = {o.file for o in objects if o.links}
        texts = metadata.Metadata.of(archive, folders, libraries) if folders else metadata.NONE
        project, version, tags = metadata.identity(source, texts)
        return WheelFacts(
            name=source.label,
            size=source.size or sum(m.size for m in archive.members),
            project=project,
            version=version,
            file_tags=tags,
            wheel_tags=texts.tags,
            requires=texts.requires,
            members={m.name: m.size for m in archive.members},
            checksums={m.name: m.crc for m in archive.members},
            purelib=texts.purelib,
            pins=pins.pins(archive),
            record=texts.record,
            objects=objects,
            device=tuple(DeviceCode(s.file, s.containers) for s in scanned if s.containers),
            kernels=tuple(kernels.kernel_sets(archive)),
            sources=tuple(kernels.source_sets(archive)),
            preloads=preload.loaders(archive) if policy.outside(objects) or layout.unreached(objects) else (),
            metadata_problems=texts.problems,
            identities=texts.identities,
            damaged={s.file: s.problem for s in scanned if s.problem},
            form=source.form,
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
    if not large(given) or (jobs == 1 and len(given) == 1 and ahead.is_begun(given[0].path)):
        return (_outcome(one, None) for one in given)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  as said

    members = ThreadPoolExecutor(min(jobs, _THREADS)) if jobs > 1 else None
    wheels = ThreadPoolExecutor(min(jobs, 2))
    order = sorted(range(len(given)), key=lambda index: _size(given[index]), reverse=True)
    pending = {index: wheels.submit(_outcome, given[index], members) for index in order}
    pools = (wheels, members) if members else (wheels,)
    return _results([pending[index] for index in range(len(given))], pools)


def large(given: Sequence[Input]) -> bool:
    """Say whether reading takes so long that loading code and tables meanwhile is worth a thread."""
    return sum(map(_size, given)) >= ahead.LARGE


def _results(
    pending: list[Future[WheelFacts | MalformedError | OSError]], pools: tuple[Executor, ...]
) -> Iterator[WheelFacts | MalformedError | OSError]:
    try:
        for future in pending:
            yield future.result()
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)


def _outcome(one: Input, pool: Executor | None) -> WheelFacts | MalformedError | OSError:
    try:
        return read(one, pool)
    except (MalformedError, OSError) as error:
        return error


def _size(one: Input) -> int:
    try:
        return one.size
    except OSError:  # said when it is read
        return 0


def _scan_all(
    source: Input, archive: Archive, pool: Executor | None, begun: ahead.Begun | None
) -> list[Scanned]:
    """Scan the binaries of an archive, the largest first, and return them in the order of its directory."""
    binaries = begun.binaries if begun else ahead.Binaries(archive)
    if pool is not None:
        done = _in_pool(pool, partial(scan, archive, wheel=source.label), binaries)
    elif begun is None:
        done = [(i, scan(archive, m, source.label)) for i, m in binaries]
    else:
        done = []
    done += begun.scanned() if begun else []
    return [scanned for _, scanned in sorted(done, key=lambda each: each[0])]


def _in_pool(
    pool: Executor, work: Callable[[Member], Scanned], members: Iterable[tuple[int, Member]]
) -> list[tuple[int, Scanned]]:
    pending: list[tuple[int, Future[Scanned]]] = []
    try:
        for index, member in members:
            pending.append((index, pool.submit(work, member)))
        return [(index, future.result()) for index, future in pending]
    except BaseException:
        for _, future in pending:
            if not future.cancel():
                future.exception()
        raise
