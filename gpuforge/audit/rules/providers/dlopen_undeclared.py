"""GF208: libraries that are opened by name at run time, and that nothing installs or no search path leads to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.nvidia import is_nvidia_library
from gpuforge.audit.rules.providers.opened_by_python import opened_by_python
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find names of CUDA libraries among the constants of objects that opening them by name does not find.

    It is not an error: a constant does not prove a call, and the code may handle a missing library. Of Python code it
    is known what a call opens, and what happens if that fails.
    """
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links and o.mentions and not is_nvidia_library(graph, o)):
            for name in sorted(found.mentions):
                if package_tables.candidates(name):
                    yield from _opened(graph, wheel, found, name)
                elif name.endswith(".so"):
                    yield from _unversioned(graph, wheel, found, name)
        yield from opened_by_python(RULE, graph, wheel)


RULE = Rule(
    code="GF208",
    severity="error",
    title="a library is opened by name at run time, and is not found",
    check=check,
    applies_to=PACKAGES,
)


def _opened(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, name: str) -> Iterator[Finding]:
    packages = {library.package for library in package_tables.candidates(name)}
    if _is_loaded(graph, wheel, binary, name):
        return
    edge = graph.opened.get((wheel.name, binary.file, name))
    if packages & graph.declared[wheel.name].keys():
        if edge and edge.reason == "no path":
            subject = Subject(file=binary.file, library=name, provider=edge.provider.package, kind="no path")
            yield _finding(wheel, subject, _NO_PATH, search_path.commands(graph, binary))
    elif not any(w.project in packages for w in graph.wheels):
        yield _finding(
            wheel, Subject(file=binary.file, library=name, provider=" or ".join(sorted(packages))), _MISSING
        )


def _finding(wheel: WheelFacts, subject: Subject, text: Text, commands: Iterable[str] = ()) -> Finding:
    return RULE.finding(
        wheel.name,
        **text._asdict(),
        files=(subject.file,),
        subjects=(subject,),
        cause=(subject.kind,),
        commands=commands,
    )


_MISSING = Text(
    "Objects probably open these CUDA libraries with dlopen, and no requirement or extra installs them.",
    "Without them, the call that opens them fails.",
    "Declare the packages, always or in an extra, and give the objects a RUNPATH to their folders. With an extra, name "
    "it in the error message.",
    "warning",
)
_NO_PATH = Text(
    "Objects probably open these CUDA libraries with dlopen, and no search path leads to the packages that bring them.",
    "The call that opens them fails, unless something else has loaded the libraries before.",
    "Give the objects a RUNPATH to the package's folder.",
    "warning",
)
_NO_VERSION = Text(
    "Objects probably open these CUDA libraries by names without a version.",
    "NVIDIA's packages have no files of these names: the call that opens them fails on machines without a CUDA "
    "toolkit.",
    "Open them by their SONAMEs (libcublas.so.12), declare the packages, and give the objects a RUNPATH to their "
    "folders.",
    "warning",
)


def _unversioned(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, name: str) -> Iterator[Finding]:
    """Find names that are links for the linker in a toolkit; packages on PyPI do not have them.

    Code that also names the SONAME tries one after the other, or adds the version to "libcublas.so.".
    """
    stem = sonames.stem(name)
    if not libraries.is_toolkit_file(name) or any(
        m != name and sonames.stem(m) == stem for m in binary.mentions
    ):
        return
    if any(name in (o.name, o.soname) for w in graph.wheels for o in w.objects):
        return
    if _is_loaded(graph, wheel, binary, name):
        return
    yield _finding(wheel, Subject(file=binary.file, library=name, kind="no version"), _NO_VERSION)


def _is_loaded(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, name: str) -> bool:
    """Return whether a library, or another version of it, is in the process already or is opened in another way."""
    stem = sonames.stem(name)
    known = graph.declared[wheel.name].keys()
    # one of several majors that are tried in turn
    tried = {sonames.unversioned(m): m for m in binary.mentions if m != name and sonames.stem(m) == stem}
    return (
        any(
            {library.package for library in package_tables.candidates(other)} & known
            for other in tried.values()
        )
        or any(sonames.stem(sonames.plain_name(o.name)) == stem for o in wheel.objects)
        or any(stem == sonames.stem(needed) for o in wheel.objects for needed in o.needed)
        or any(p.pathfinder or p.opens(name) for p in wheel.preloads)
    )
