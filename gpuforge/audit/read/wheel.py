"""Read a wheel: its names and metadata, its ELF objects, its GPU code; nothing is unpacked to disk."""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path, PurePosixPath

from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read import kernels, pins, preload
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.parallel import results_of
from gpuforge.audit.read.scan import Scanned, binaries, scan
from gpuforge.binary.facts import DeviceCode
from gpuforge.errors import MalformedError
from gpuforge.wheel import filename
from gpuforge.wheel.archive import Archive
from gpuforge.wheel.dist_info import DistInfo

_THREADS = 4  # each keeps up to 30 MB of a member in memory


def read_all(given: Sequence[Input], jobs: int = 1) -> list[WheelFacts | MalformedError | OSError]:
    """Return the facts of each input, or the error that reading it raised.

    `jobs` threads share the members of a single wheel; of several wheels, each is read by one thread.
    """
    jobs = min(jobs, _THREADS)
    if len(given) == 1:
        return [_facts_or_error(given[0], jobs)]
    return results_of(_facts_or_error, given, _size, jobs)


def read(given: Path | Input, jobs: int = 1) -> WheelFacts:
    """Read a wheel, or an input that counts as one.

    Raises MalformedError for a file that is not a wheel or a broken one, OSError when it cannot be read.
    """
    source = given if isinstance(given, Input) else Input.of(given)
    with source.open() as archive:
        info = _dist_info(source, archive)
        members = binaries(archive)
        scanned = results_of(partial(scan, archive, wheel=source.label), members, attrgetter("size"), jobs)
        return _facts(source, archive, info, scanned)


def _facts_or_error(one: Input, jobs: int = 1) -> WheelFacts | MalformedError | OSError:
    try:
        return read(one, jobs)
    except (MalformedError, OSError) as error:
        return error


def _size(one: Input) -> int:
    try:
        return one.size
    except OSError:  # reported when it is read
        return 0


def _dist_info(source: Input, archive: Archive) -> DistInfo:
    if source.form in {"file", "folder"}:
        return DistInfo()
    tops = {member.name.partition("/")[0] for member in archive.members}
    folders = frozenset(name for name in tops if name.endswith(".dist-info"))
    if not folders:
        raise MalformedError.of("it is a zip file but no wheel: it has no .dist-info folder")
    return DistInfo.of(archive, folders)


def _facts(source: Input, archive: Archive, info: DistInfo, scanned: Sequence[Scanned]) -> WheelFacts:
    if source.form in {"wheel", "nested"}:
        project, version, tags = filename.claims(PurePosixPath(source.label).name)
    else:
        project, version, tags = info.project, info.version, info.tags
    objects = tuple(s.object for s in scanned if s.object)
    code = preload.Code(archive)
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
        pins=pins.pins(archive),
        record=info.record,
        objects=objects,
        device=tuple(DeviceCode(s.file, s.containers) for s in scanned if s.containers),
        kernels=tuple(kernels.kernel_sets(archive)),
        sources=tuple(kernels.source_sets(archive)),
        kernels_wheels=kernels.document(archive, "wheels.json"),
        kernels_wheel=kernels.document(archive, "wheel.json"),
        preloads=preload.preloads(code) if any(o.links for o in objects) else (),
        metadata_problems=info.problems,
        identities=info.identities,
        damaged={s.file: s.problem for s in scanned if s.problem} | code.damaged,
        corrupt=frozenset(s.file for s in scanned if s.corrupt) | code.corrupt,
        form=source.form,
        links=info.links,
    )
