"""GF213: a library of NVIDIA in the wheel without the parts that it opens by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import SEVERAL_FILES
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.nvidia import is_nvidia_wheel
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.version import minor_of


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find copies of cuDNN or NVRTC that open parts of their package, where all parts are missing.

    auditwheel copies NEEDED libraries, and the parts are not NEEDED. If some are there, the others were left out on
    purpose (cuDNN without its training). The parts are those that the copy's own constants name in full, else those of
    the table: cuDNN 9 adds the version to `libcudnn_ops.so` when it opens it.
    """
    given = {wheel.project for wheel in graph.wheels}
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links):
            own = sonames.plain_name(found.name)
            opener = libraries.opener(own)
            if not opener or not opener.always or is_nvidia_wheel(wheel):
                continue
            packages = {library.package for library in package_tables.candidates(own)}
            composed = (f"{part}.{version}" for part in opener.opens for version in _versions(own))
            parts = _of(packages, found.mentions) - {own} or _of(packages, composed)
            if not parts or packages & (given | graph.declared[wheel.name].keys()):
                continue
            if not any(_there(wheel, name) for name in parts):
                yield _finding(found, wheel, sorted(parts), sorted(packages))


RULE = Rule(
    code="GF213",
    severity="warning",
    title="a grafted library opens its parts by name, and the wheel contains none of them",
    check=check,
    applies_to=SEVERAL_FILES,
)


def _versions(name: str) -> tuple[str, str]:
    """Return the versions that may follow `.so.` in a part's name: "9" and "9.1" for libcudnn.so.9.1.0."""
    return sonames.major(name), minor_of(sonames.version(name))


def _of(packages: set[str], names: Iterable[str]) -> set[str]:
    """Return the names that are exactly SONAMEs of one of the packages."""
    return {
        n
        for n in names
        for library in package_tables.candidates(n)
        if library.soname == n and library.package in packages
    }


def _there(wheel: WheelFacts, name: str) -> bool:
    """Return whether the wheel has a part, under its own name or loaded before the call that needs it.

    NVRTC uses builtins that are in the process, under any name, before it opens them.
    """
    stem = sonames.bare(name)
    needed = {
        n for o in wheel.objects for n in o.needed if sonames.stem(sonames.plain_name(n)) == f"lib{stem}"
    }
    return any(name in (o.name, o.soname) or o.name in needed for o in wheel.objects) or any(
        preload.opens(name) for preload in wheel.preloads
    )


def _finding(binary: ElfObject, wheel: WheelFacts, parts: list[str], packages: list[str]) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(binary.file,),
        subjects=(Subject(file=binary.file, detail="opens", names=tuple(parts)),),
        cause=tuple(packages),
        what="NVIDIA libraries in the wheel open other libraries by name, and the wheel contains none "
        "of these.",
        why="The first call that needs one fails, and cuDNN ends the process, unless the machine has the "
        "same version installed.",
        fix=f"Leave the library out of the wheel, require its package ({' or '.join(packages)}) and add a "
        "RUNPATH to it; or graft the libraries that it opens, too, under their own names.",
    )
