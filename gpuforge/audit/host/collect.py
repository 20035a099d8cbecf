"""Reads all bytes of the files that a manifest calls host-only, and of the libraries of its wheel that these load."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from gpuforge.audit.evidence import Evidence, Gap, ObjectEvidence, files_of
from gpuforge.audit.host import traces
from gpuforge.audit.link.graph import LinkGraph, closure
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read.input import Input
from gpuforge.binary import ar
from gpuforge.binary.elf.header import MAGIC, PROGRAM, RELOCATABLE, SHARED
from gpuforge.binary.elf.object_file import ObjectFile
from gpuforge.cuda import stack
from gpuforge.cuda.stack import library_of
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


_DEEPEST = 4  # archives in archives
_MEMBERS = 100_000  # of an archive, with those of archives in it
_UNREADABLE = {
    b"BC\xc0\xde": Gap("LLVM bitcode"),
    b"\xde\xc0\x17\x0b": Gap("LLVM bitcode"),
    b"\xcf\xfa\xed\xfe": Gap("macOS"),
    b"\xca\xfe\xba\xbe": Gap("macOS"),
    b"!<bi": Gap("AIX"),
    b"<big": Gap("AIX"),
}
_PE = 0x3C  # the offset of the header's position in a Windows binary


@dataclass
class FileReader:
    """Reads the files of one wheel; `fetch` returns a file of it by name, and raises MalformedError."""

    fetch: Callable[[str], bytes]
    _left: int = _MEMBERS

    def file(self, name: str) -> Evidence:
        """Return the evidence in a file, or the reason why it cannot be read."""
        try:
            data = self.fetch(name)
        except MalformedError as error:
            return Evidence(name, (ObjectEvidence(unproved=Gap("not read", error.diagnostics[0].head)),))
        self._left = _MEMBERS
        if ar.is_archive(data):
            return Evidence(name, tuple(self._members(data, name, "", 1)), archive=True)
        return Evidence(name, (part(data),))

    def _members(self, data: bytes, file: str, above: str, depth: int) -> Iterator[ObjectEvidence]:
        """Yield the evidence in an archive's members, and in the archives among them."""
        try:
            for member in ar.members(data):
                self._left -= 1
                if self._left < 0:
                    yield ObjectEvidence(unproved=Gap("members", _MEMBERS))
                    return
                name = f"{above}{member.name}"
                yield from self._member(name, self._content(member, file), file, depth)
        except MalformedError as error:
            yield ObjectEvidence(above.removesuffix("/"), unproved=Gap("not read", error.diagnostics[0].head))

    def _member(self, name: str, data: bytes, file: str, depth: int) -> Iterator[ObjectEvidence]:
        if not ar.is_archive(data):
            yield part(data, name)
        elif depth == _DEEPEST:
            yield ObjectEvidence(name, unproved=Gap("depth", _DEEPEST))
        else:
            yield from self._members(data, file, f"{name}/", depth + 1)

    def _content(self, member: ar.ArMember, file: str) -> bytes:
        """Return a member's bytes; a member of a thin archive is a file of the wheel."""
        if member.data is not None:
            return member.data
        path = _beside(file, member.name)
        if path is None:
            raise MalformedError.of(f"the thin archive names {member.name}, which is outside of the wheel")
        return self.fetch(path)


def part(data: bytes, name: str = "") -> ObjectEvidence:
    """Return the evidence in one object, or in a file that is not an object."""
    if data[:4] != MAGIC:
        return ObjectEvidence(name, counted=False, code=tuple(traces.code([data])), unproved=_foreign(data))
    try:
        return _object(ObjectFile(data), name)
    except MalformedError as error:
        gap = Gap("damaged", error.diagnostics[0].head)
        return ObjectEvidence(name, code=tuple(traces.code([data])), unproved=gap)


def _object(binary: ObjectFile, name: str) -> ObjectEvidence:
    code = tuple(dict.fromkeys(traces.code([binary.data, *binary.unpacked()])))
    marks = tuple(dict.fromkeys(traces.marks(binary)))
    public = list(traces.interface_symbols(binary.symbols))
    interface = {s.name: (library, s.defined) for s in public if (library := library_of(s.name))}
    opens = stack.opened(binary.data) - set(binary.needed)
    return ObjectEvidence(
        name,
        code=code,
        marks=marks,
        needs=binary.needed,
        undefined={symbol: library for symbol, (library, defined) in interface.items() if not defined},
        defined=frozenset(symbol for symbol, (_, defined) in interface.items() if defined),
        opens=opens,
        unproved=None if code or marks else _unproved(binary),
    )


def _unproved(binary: ObjectFile) -> Gap | None:
    """Return why an object without any trace proves nothing; None if it does."""
    if traces.machine(binary.machine) is None:
        return Gap("machine", binary.machine)
    if binary.type not in (RELOCATABLE, PROGRAM, SHARED):
        return Gap("type", binary.type)
    if binary.type != RELOCATABLE:
        return None
    if not binary.sections:
        return Gap("sections")
    if _is_gimple(binary):
        return Gap("GCC bytecode")
    if binary.has_code and not traces.names_its_compiler(binary) and not traces.is_assembly(binary):
        return Gap("compiler")
    return None


def _is_gimple(binary: ObjectFile) -> bool:
    """Return whether an object has bytecode but no machine code for it (struct lto_section of GCC's lto-streamer.h)."""
    slim = (binary.content(s)[4:5] for s in binary.sections if s.name.startswith(".gnu.lto_.lto."))
    return any(flag == b"\x01" for flag in slim) or any(s.name == "__gnu_lto_slim" for s in binary.symbols)


def _foreign(data: bytes) -> Gap | None:
    """Return why a file that is not ELF cannot be proved; None if it is not a binary."""
    if data[:2] == b"MZ":
        at = int.from_bytes(data[_PE : _PE + 4], "little")
        return Gap("Windows") if data[at : at + 4] == b"PE\0\0" else None
    return _UNREADABLE.get(data[:4])


def _beside(file: str, name: str) -> str | None:
    """Return the path in the wheel of a thin archive's member; None if it is outside."""
    folders = file.split("/")[:-1]
    if name.startswith("/"):
        return None
    for step in name.split("/"):
        if step == "..":
            if not folders:
                return None
            folders.pop()
        elif step not in {"", "."}:
            folders.append(step)
    return "/".join(folders)
