"""Reads all bytes of the files that a manifest calls host-only, and of the libraries of its wheel that these load."""

from collections.abc import Iterable, Mapping
from functools import partial

from gpuforge.audit.evidence import Evidence, Gap, ObjectEvidence
from gpuforge.audit.host.file_reader import FileReader
from gpuforge.audit.host_files import files_of
from gpuforge.audit.link.closure import closure
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read.input import Input
from gpuforge.cuda import stack
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive, Member

_LARGEST = 1 << 30  # bytes of a file that is read completely


def collect(given: Iterable[Input], graph: LinkGraph) -> dict[tuple[str, str], Evidence]:
    """Return the evidence by wheel and file; it includes the reason for a file that cannot be read."""
    found: dict[tuple[str, str], Evidence] = {}
    inputs = {one.label: one for one in given}
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        files = [
            (file, promised.needs)
            for promised in (expectation.host_only if expectation else ())
            for file in sorted(files_of(promised.patterns, wheel))
        ]
        if not files:
            continue
        try:
            with inputs[wheel.name].open() as archive:
                read = _of_wheel(archive, graph, wheel, files)
        except (MalformedError, OSError) as error:  # it could be read a moment ago
            read = {
                file: Evidence(file, (ObjectEvidence(unproved=Gap("not read", str(error))),))
                for file, _ in files
            }
        found |= {(wheel.name, file): evidence for file, evidence in read.items()}
    return found


def _of_wheel(
    archive: Archive, graph: LinkGraph, wheel: WheelFacts, files: Iterable[tuple[str, tuple[str, ...]]]
) -> dict[str, Evidence]:
    reader = FileReader(partial(_fetch, archive, {member.name: member for member in archive.members}))
    found: dict[str, Evidence] = {}
    for file, needs in files:
        if file not in found:
            found[file] = reader.file(file)
        needed = [name for part in found[file].parts for name in part.needs]
        for loaded in closure(graph, wheel, file, needed, needs):
            target = loaded.object
            if target.file not in found and stack.member(target.name) is None:
                found[target.file] = reader.file(target.file)
    return found


def _fetch(archive: Archive, members: Mapping[str, Member], name: str) -> bytes:
    """Return a file of the wheel. Raises MalformedError if it is missing, damaged or too large."""
    member = members.get(name)
    if member is None:
        raise MalformedError.of(f"{name} is not in the wheel")
    if member.size > _LARGEST:
        raise MalformedError.of(f"{name} has {member.size:,} bytes: more than are read of a host-only file")
    data = bytearray()
    for chunk in archive.chunks(member):
        data += chunk
        if len(data) > member.size:
            raise MalformedError.of(f"{name}: it has more bytes than the central directory says")
    return bytes(data)
