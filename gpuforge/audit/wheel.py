"""Read a wheel: its names and metadata, its ELF objects, its GPU code; nothing is unpacked to disk."""

from __future__ import annotations

import csv
import email.parser
import io
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from gpuforge.audit import kernels, policy, preload
from gpuforge.audit.inflate import Archive, Member
from gpuforge.audit.model import DeviceCode, MalformedError, WheelFacts
from gpuforge.audit.scan import Scanned, is_binary, scan

_TEXT_LIMIT = 64 << 20  # bytes; larger metadata is not metadata


def read(path: Path, pool: Executor | None = None) -> WheelFacts:
    """Read the wheel at `path`, its members in the processes of `pool` if there is one.

    Raises MalformedError for a file that is no wheel or a broken one, OSError when it cannot be read.
    """
    with Archive(path) as archive:
        texts = _Metadata.of(archive)
        binaries = [m for m in archive.members if m.packed and is_binary(m.name, archive.head(m, 8))]
        scanned = _scan_all(path, archive, binaries, pool)
        objects = tuple(s.object for s in scanned if s.object)
        project, version, tags = _file_name(path.name)
        return WheelFacts(
            name=path.name,
            size=path.stat().st_size,
            project=project,
            version=version,
            file_tags=tags,
            wheel_tags=texts.tags,
            requires=texts.requires,
            members={m.name: m.size for m in archive.members},
            record=texts.record,
            objects=objects,
            device=tuple(DeviceCode(s.file, s.containers) for s in scanned if s.containers),
            kernels=tuple(kernels.kernel_sets(archive)),
            sources=tuple(kernels.source_sets(archive)),
            preloads=preload.loaders(archive) if policy.outside(objects) else (),
            metadata_problems=texts.problems,
            damaged={s.file: s.problem for s in scanned if s.problem},
        )


def _scan_all(path: Path, archive: Archive, binaries: list[Member], pool: Executor | None) -> list[Scanned]:
    if pool is None or len(binaries) < 2:
        return [scan(archive, member, path.name) for member in binaries]
    order = sorted(binaries, key=lambda m: m.size, reverse=True)  # the largest one bounds the gain
    done = {s.file: s for s in pool.map(_scan_in_process, [path] * len(order), order)}
    return [done[member.name] for member in binaries]


def _scan_in_process(path: Path, member: Member) -> Scanned:
    with Archive(path) as archive:
        return scan(archive, member, path.name)


def _file_name(name: str) -> tuple[str, str, tuple[str, ...]]:
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion):
        parts = name.removesuffix(".whl").split("-")
        return (canonicalize_name(parts[0]), parts[1], ()) if len(parts) > 1 else ("", "", ())
    return project, str(version), tuple(sorted(map(str, tags)))


@dataclass(frozen=True, slots=True)
class _Metadata:
    """What the `.dist-info` folder says."""

    tags: tuple[str, ...]
    requires: tuple[str, ...]
    record: dict[str, tuple[str, int | None]] | None
    problems: tuple[str, ...]

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
        wheel, metadata = (
            email.parser.HeaderParser().parsestr(texts.get(n, "")) for n in ("WHEEL", "METADATA")
        )
        tags = {
            str(tag) for text in wheel.get_all("Tag", []) for tag in parse_tag(text) if text.count("-") == 2
        }
        record = dict(_record(texts["RECORD"])) if "RECORD" in texts else None
        return cls(tuple(sorted(tags)), tuple(metadata.get_all("Requires-Dist", [])), record, tuple(problems))


def _record(text: str) -> Iterator[tuple[str, tuple[str, int | None]]]:
    for row in csv.reader(io.StringIO(text)):
        if row:
            digest, size = (*row[1:], "", "")[:2]
            yield row[0], (digest, int(size) if size.isdigit() else None)
