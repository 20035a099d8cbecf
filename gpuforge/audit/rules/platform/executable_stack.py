"""GF503: objects that require an executable stack.

Without PT_GNU_STACK, glibc takes the processor's default: DEFAULT_STACK_PERMS in the `stackinfo.h` of its port
(https://sourceware.org/git/?p=glibc.git;a=blob;f=sysdeps/x86_64/stackinfo.h). musl never makes the stack executable.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.elf.header import MACHINES, PF_X
from gpuforge.binary.facts import ElfObject

_EXECUTABLE_BY_DEFAULT = frozenset({"x86_64", "i686", "armv7l"})


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects whose PT_GNU_STACK is executable, or that have none on a processor where that means the same."""
    for found in (o for wheel in graph.wheels for o in wheel.objects if o.links):
        if _is_executable(found):
            detail = "has no PT_GNU_STACK" if found.stack is None else ""
            yield RULE.finding(
                found.wheel,
                files=(found.file,),
                subjects=(Subject(file=found.file, detail=detail),),
                what="Objects ask for an executable stack.",
                why="glibc 2.41 and newer refuse to load such a library into a running process, and hardened "
                "kernels refuse such a program.",
                fix="Link with -z noexecstack, or clear the flag in the file.",
                commands=(f"patchelf --clear-execstack {shlex.quote(found.file)}",),
            )


RULE = Rule(
    code="GF503",
    severity="error",
    title="an object asks for an executable stack",
    check=check,
    contradicts="platform",
)


def _is_executable(binary: ElfObject) -> bool:
    if binary.stack is not None:
        return bool(binary.stack & PF_X)
    by_default = MACHINES.get(binary.machine) in _EXECUTABLE_BY_DEFAULT
    return by_default and not binary.is_debug and policy.c_libraries(binary) != {"musl"}
