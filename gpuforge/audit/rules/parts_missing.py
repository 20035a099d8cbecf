"""GF213: a library of NVIDIA's in the wheel without the parts that it opens by name."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import declared
from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import ElfObject, Finding, Severity, WheelFacts
from gpuforge.audit.rules.architectures import is_toolkit
from gpuforge.toolkits import libraries

CODE = "GF213"
SEVERITY: Severity = "warning"
TITLE = "a grafted library opens parts of its own by name, and none of them is there"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find copies of cuDNN or NVRTC whose own constants name parts of the same package, all of which are missing.

    auditwheel grafts what is NEEDED, and the parts are not. Where some are there, the others are left out on purpose
    (cuDNN without its training).
    """
    given = {wheel.project for wheel in graph.wheels}
    for wheel in (w for w in graph.wheels if w.form != "file"):
        for found in (o for o in wheel.objects if o.links and o.mentions and not is_toolkit(wheel)):
            own = libraries.plain_name(found.name)
            packages = {library.package for library in declared.candidates(own)}
            parts = {name for name in found.mentions if packages & _packages(name)} - {own}
            opener = libraries.opener(own)
            if (
                not opener
                or not opener.always
                or not parts
                or packages & (given | graph.declared[wheel.name].keys())
            ):
                continue
            if not any(_there(wheel, name) for name in parts):
                yield _finding(found, wheel, sorted(parts), sorted(packages))


def _packages(name: str) -> set[str]:
    return {library.package for library in declared.candidates(name)}


def _there(wheel: WheelFacts, name: str) -> bool:
    """Say whether the wheel has a part under the name that is asked for, or Python code of it loads it before."""
    stem = name.partition(".so")[0].removeprefix("lib")
    return any(name in (o.name, o.soname) for o in wheel.objects) or any(
        {stem, name} & preload.names for preload in wheel.preloads
    )


def _finding(found: ElfObject, wheel: WheelFacts, parts: list[str], packages: list[str]) -> Finding:
    return Finding(
        CODE,
        SEVERITY,
        wheel.name,
        files=(found.file,),
        subject=(f"{found.file} opens {', '.join(parts)}",),
        message="libraries of NVIDIA's open their own parts by name while they work, and the wheel has none of these: "
        "the first call that wants one ends the process, unless the machine has them in the very same version",
        remedy=f"do not graft the library: require the package that has all of it ({' or '.join(packages)}) and give "
        "the objects a RUNPATH to it; or graft the parts, too, under their own names",
    )
