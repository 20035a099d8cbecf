"""Reads an ELF file into an `ElfObject`."""

from gpuforge.binary import cubin
from gpuforge.binary.elf import linked_file, symbols
from gpuforge.binary.elf.file import ElfFile, build_id, isa, version_needs
from gpuforge.binary.elf.header import EM_CUDA, PT_GNU_RELRO, PT_GNU_STACK
from gpuforge.binary.elf.symbols import Patterns
from gpuforge.binary.facts import ElfObject
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError


def read(window: Window, sought: Patterns, *, wheel: str = "", file: str = "") -> ElfObject:
    """Read the ELF file in `window`, except the fatbin containers in it; PTX texts are containers, too.

    Raises MalformedError for bytes that contradict each other, MissedError for a range that was not kept.
    """
    found = ElfFile(window)
    header = found.header
    if header.machine == EM_CUDA:  # the dynamic linker does not read it
        return cubin.read(found, wheel=wheel, file=file)
    broken = linked_file.problems(found)
    try:
        return _linked(found, sought, wheel, file)._replace(broken=broken)
    except MalformedError:
        if not broken or header.loaded_end > window.size:  # the file was truncated
            raise
        return ElfObject(wheel, file, window.size, header.bits, header.machine, header.type, broken=broken)


def _linked(elf: ElfFile, sought: Patterns, wheel: str, file: str) -> ElfObject:
    header, dynamic = elf.header, elf.dynamic
    markers = symbols.markers(elf, sought)
    found = symbols.search_constants(elf, sought.libraries, sought.release)
    stack = header.segment(PT_GNU_STACK)
    return ElfObject(
        wheel=wheel,
        file=file,
        size=elf.window.size,
        bits=header.bits,
        machine=header.machine,
        type=header.type,
        dynamic=dynamic.entries,
        soname=dynamic.soname,
        needed=dynamic.needed,
        rpath=dynamic.rpath,
        runpath=dynamic.runpath,
        interpreter=elf.interpreter,
        version_needs=tuple(version_needs(elf)),
        stack=stack.flags if stack else None,
        page=header.page,
        relro=header.segment(PT_GNU_RELRO) is not None,
        isa=isa(elf),
        build_id=build_id(elf),
        comment=elf.comment,
        sections=elf.sections,
        markers=markers,
        producers=symbols.compilers(elf, sought, markers),
        mentions=found.libraries,
        release=found.release,
        all_searched=found.all_searched,
        symbols=symbols.names_of(elf, sought.symbols, markers),
        containers=found.texts,
        order=header.order,
        os_abi=header.os_abi,
        abi_version=header.abi_version,
    )
