"""Read a wheel: its names and metadata, its ELF objects, its GPU code; nothing is unpacked to disk."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from gpuforge.audit import kernels, pins, policy, preload
from gpuforge.audit.inflate import Archive, Member
from gpuforge.audit.inputs import Input
from gpuforge.audit.model import DeviceCode, MalformedError, WheelFacts
from gpuforge.audit.scan import Scanned, is_binary, may_be_binary, scan

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_THREADS = 4  # each keeps up to 30 MB of a member in memory
_TEXT_LIMIT = 64 << 20  # bytes; larger metadata is not metadata


def read(given: Path | Input, pool: Executor | None = None) -> WheelFacts:
    """Read a wheel, or what is taken for one, its members in the threads of `pool` if there is one.

    Raises MalformedError for a file that is no wheel or a broken one, OSError when it cannot be read.
    """
    source = given if isinstance(given, Input) else Input.of(given)
    with source.open() as archive:
        texts = _Metadata.of(archive) if source.form != "file" else _NO_METADATA
        binaries = [
            m
            for m in archive.members
            if m.packed and may_be_binary(m.name) and is_binary(m.name, archive.head(m, 8))
        ]
        scanned = _scan_all(source, archive, binaries, pool)
        objects = tuple(s.object for s in scanned if s.object)
        project, version, tags = _identity(source, texts)
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
            preloads=preload.loaders(archive) if policy.outside(objects) else (),
            metadata_problems=texts.problems,
            damaged={s.file: s.problem for s in scanned if s.problem},
            form=source.form,
        )


def read_all(given: Sequence[Input], jobs: int = 1) -> Iterator[WheelFacts | MalformedError | OSError]:
    """Return what is read of each input, in their order, or why it cannot be; the largest are read first.

    `jobs` threads inflate and search at the same time, from now on: both let go of the interpreter's lock. A
    single job begins when the first result is asked for.
    """
    if jobs <= 1:
        return (_outcome(one, None) for one in given)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  one job needs no threads

    members, wheels = ThreadPoolExecutor(min(jobs, _THREADS)), ThreadPoolExecutor(2)
    order = sorted(range(len(given)), key=lambda index: _size(given[index]), reverse=True)
    pending = {index: wheels.submit(_outcome, given[index], members) for index in order}
    return _results([pending[index] for index in range(len(given))], (wheels, members))


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
    source: Input, archive: Archive, binaries: list[Member], pool: Executor | None
) -> list[Scanned]:
    if pool is None or len(binaries) < 2:
        return [scan(archive, member, source.label) for member in binaries]
    order = sorted(binaries, key=lambda m: m.size, reverse=True)  # the largest one bounds the gain
    done = {s.file: s for s in pool.map(partial(scan, archive, wheel=source.label), order)}
    return [done[member.name] for member in binaries]


def _identity(source: Input, texts: _Metadata) -> tuple[str, str, tuple[str, ...]]:
    """Return project, version and tags: of a file name's promise, and where there is none of the metadata's."""
    if source.form in {"wheel", "nested"}:
        return _file_name(PurePosixPath(source.label).name)
    return texts.project, texts.version, texts.tags


def _file_name(name: str) -> tuple[str, str, tuple[str, ...]]:
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion):
        parts = name.removesuffix(".whl").split("-")
        return (canonicalize_name(parts[0]), parts[1], ()) if len(parts) > 1 else ("", "", ())
    return project, str(version), tuple(sorted(map(str, tags)))


class _Metadata(NamedTuple):
    """What the `.dist-info` folder says."""

    tags: tuple[str, ...]
    requires: tuple[str, ...]
    record: dict[str, tuple[str, int | None]] | None
    problems: tuple[str, ...]
    project: str = ""
    version: str = ""
    purelib: bool = False

    @classmethod
    def of(cls, archive: Archive) -> _Metadata:
        folders = {
            m.name.partition("/")[0]
            for m in archive.members
            if m.name.partition("/")[0].endswith(".dist-info")
        }
        if not folders:
            raise MalformedError.of("it is a zip file but no wheel: it has no .dist-info folder")
        problems = [f"it has {len(folders)} .dist-info folders"] if len(folders) > 1 else []
        folder = min(folders)
        texts: dict[str, str] = {}
        for member in archive.members:
            base = member.name.removeprefix(f"{folder}/")
            if base in ("WHEEL", "METADATA", "RECORD") and member.size <= _TEXT_LIMIT:
                texts[base] = archive.data(member).decode("utf-8", "replace")
        problems += [
            f"its .dist-info folder has no {name}"
            for name in ("WHEEL", "METADATA", "RECORD")
            if name not in texts
        ]
        wheel, metadata = (_headers(texts.get(name, "")) for name in ("WHEEL", "METADATA"))
        tags = {str(tag) for text in wheel.get("tag", ()) for tag in parse_tag(text) if text.count("-") == 2}
        record = dict(_record(texts["RECORD"])) if "RECORD" in texts else None
        return cls(
            tuple(sorted(tags)),
            tuple(metadata.get("requires-dist", ())),
            record,
            tuple(problems),
            canonicalize_name(metadata.get("name", [""])[0]),
            metadata.get("version", [""])[0],
            wheel.get("root-is-purelib", [""])[0].lower() == "true",
        )


_NO_METADATA = _Metadata((), (), None, ())  # of a single binary


def _headers(text: str) -> dict[str, list[str]]:
    """Return the fields before the first empty line by their names in lower case (Core metadata, RFC 822)."""
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line:
            break
        if line[0] in " \t" and values:
            values[-1] += f"\n{line}"
            continue
        name, colon, value = line.partition(":")
        if not colon:
            break  # no field: the text begins
        values = fields.setdefault(name.strip().lower(), [])
        values.append(value.strip())
    return fields


def _record(text: str) -> Iterator[tuple[str, tuple[str, int | None]]]:
    for row in csv.reader(io.StringIO(text)):
        if row:
            digest, size = (*row[1:], "", "")[:2]
            yield row[0], (digest, int(size) if size.isdigit() else None)
