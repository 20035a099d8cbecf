"""Reads an ELF file into an `ElfObject`."""

from gpuforge.binary import cubin
from gpuforge.binary.elf import notes, patterns, segments, symbols, versions
from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.elf.header import EM_CUDA, PT_GNU_RELRO, PT_GNU_STACK
from gpuforge.binary.elf.patterns import Patterns
from gpuforge.binary.facts import ElfObject
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError


def read(window: Window, sought: Patterns, *, wheel: str = "", file: str = "") -> ElfObject:
    """Read the ELF file in `window`, except the fatbin containers in it.

    Raises MalformedError for bytes that contradict each other, MissedError for a range that was not kept.
    """
    found = ElfFile(window)
    header = found.header
    if header.machine == EM_CUDA:  # the dynamic linker does not read it
        return cubin.read(found, wheel=wheel, file=file)
    broken = segments.problems(found)
    try:
        return _linked(found, sought, wheel, file)._replace(broken=broken)
    except MalformedError:
        if not broken or header.loaded_end > window.size:  # the file was truncated
            raise
        return ElfObject(wheel, file, window.size, header.bits, header.machine, header.type, broken=broken)


def _linked(found: ElfFile, sought: Patterns, wheel: str, file: str) -> ElfObject:
    header, dynamic = found.header, found.dynamic
    markers = patterns.markers(found, sought)
    stack = header.segment(PT_GNU_STACK)
    return ElfObject(
        wheel=wheel,
        file=file,
        size=found.window.size,
        bits=header.bits,
        machine=header.machine,
        type=header.type,
        dynamic=dynamic.entries,
        soname=dynamic.soname,
        needed=dynamic.needed,
        rpath=dynamic.rpath,
        runpath=dynamic.runpath,
        interpreter=found.interpreter,
        version_needs=tuple(versions.needs(found)),
        stack=stack.flags if stack else None,
        relro=header.segment(PT_GNU_RELRO) is not None,
        isa=notes.isa(found),
        build_id=notes.build_id(found),
        comment=found.comment,
        sections=found.sections,
        markers=markers,
        producers=patterns.compilers(found, sought, markers),
        mentions=patterns.libraries(found, sought),
        symbols=symbols.names_of(found, sought.symbols, markers),
        order=header.order,
        os_abi=header.os_abi,
    )
