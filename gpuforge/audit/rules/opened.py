"""GF208, GF213: libraries that are opened by name at run time."""

import re
from collections.abc import Iterable, Iterator

from gpuforge.audit.findings import Finding, Severity, Subject, facts_of
from gpuforge.audit.link import opened, package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.installed import cuda_major
from gpuforge.audit.model import PACKAGES, SEVERAL_FILES, OpenedByName, Preload, WheelFacts
from gpuforge.audit.rules import commands
from gpuforge.audit.rules.recognise import is_nvidia_library, is_nvidia_wheel, is_tool
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.suffix import major_of_local, major_of_suffix


@rule("GF208", "error", "a library is opened by name at run time, and is not found", applies_to=PACKAGES)
def dlopen_undeclared(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find names of CUDA libraries among the constants of objects that opening them by name does not find.

    It is not an error: a constant does not prove a call, and the code may handle a missing library. Of Python code it
    is known what a call opens, and what happens if that fails.
    """
    for found in (o for o in wheel.linked if o.mentions and not is_nvidia_library(graph, o)):
        for name in sorted(found.mentions):
            if package_tables.candidates(name):
                yield from _opened(graph, wheel, found, name)
            elif name.endswith(".so"):
                yield from _unversioned(graph, wheel, found, name)
    yield from _opened_by_python(graph, wheel)


def _opened(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, name: str) -> Iterator[Finding]:
    packages = {library.package for library in package_tables.candidates(name)}
    if _is_loaded_under_any_version(graph, wheel, binary, name):
        return
    edge = graph.opened.get((wheel.name, binary.file, name))
    if packages & graph.declared[wheel.name].keys():
        if edge and edge.reason == "no path" and not _is_found_by_python(wheel, name):
            subject = Subject(file=binary.file, library=name, provider=edge.provider.package, kind="no path")
            yield _finding(wheel, subject, _NO_PATH, commands.search_path(graph, binary))
    elif not any(w.project in packages for w in graph.wheels):
        yield _finding(
            wheel, Subject(file=binary.file, library=name, provider=" or ".join(sorted(packages))), _MISSING
        )


def _is_found_by_python(wheel: WheelFacts, name: str) -> bool:
    """Return whether Python code imports the package that has a library: for its path, as nothing else is in there."""
    modules = {lib.folder.removesuffix("/lib").replace("/", ".") for lib in package_tables.candidates(name)}
    return not wheel.nvidia_modules.isdisjoint(modules)


def _finding(wheel: WheelFacts, subject: Subject, text: Text, commands: Iterable[str] = ()) -> Finding:
    return dlopen_undeclared.finding(wheel.name, subject, text=text, cause=(subject.kind,), commands=commands)


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
    if _is_loaded_under_any_version(graph, wheel, binary, name):
        return
    yield _finding(wheel, Subject(file=binary.file, library=name, kind="no version"), _NO_VERSION)


def _is_loaded_under_any_version(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, name: str) -> bool:
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


_PACKAGE = r"[^/]+\.py|[^/]+/__init__\.py"  # what `import NAME` runs


def _opened_by_python(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find libraries that Python code opens by a bare name and that are not found, if the code does not handle that.

    A library is found if it is in the process: if other code opens it by its path, an object of the wheel finds it, or
    importing torch loads it.
    """
    for preload in wheel.preloads:
        for call in preload.by_name:
            if call.raises and len(call.names) == 1:
                yield from _by_name(graph, wheel, preload, call)
    for preload in wheel.preloads:
        for soname in sorted(preload.sonames):
            if other := _other_major(graph, wheel, preload, soname):
                facts = facts_of(major=other)
                yield dlopen_undeclared.finding(
                    wheel.name,
                    Subject(
                        file=preload.file,
                        library=soname,
                        detail="of CUDA {major}",
                        facts=facts,
                        kind="other major",
                    ),
                    text=_OTHER_MAJOR,
                    cause=("python", "other major"),
                )


_OTHER_MAJOR = Text(
    "Python code opens libraries of another CUDA major than that of the wheel.",
    "Where they are not installed the code fails or does without them, and elsewhere two CUDA majors come into one "
    "process.",
    "Open the libraries of the wheel's own CUDA major.",
    "warning",
)


def _by_name(graph: LinkGraph, wheel: WheelFacts, preload: Preload, call: OpenedByName) -> Iterator[Finding]:
    (name,) = call.names
    packages = {library.package for library in package_tables.candidates(name)}
    own = next((o for o in wheel.linked if o.name == name), None)
    # of a toolkit, for the linker
    link = own is None and name.endswith(".so") and libraries.is_toolkit_file(name)
    if (own is None and not packages and not link) or _is_loaded_by_code(graph, wheel, name, packages):
        return
    if link and any(
        sonames.stem(name) == sonames.stem(o) for p in wheel.preloads for o in p.sonames - {name}
    ):
        return  # one of several names, or of a version that is put behind it
    if own and any(user.route or user.preload for user in graph.users(own)):
        return
    declared = sorted(packages & graph.declared[wheel.name].keys())
    installed = own is not None or bool(declared)
    imported = call.imported and re.fullmatch(_PACKAGE, preload.file) is not None
    severity: Severity = "error" if imported else "warning"
    yield dlopen_undeclared.finding(
        wheel.name,
        Subject(
            file=preload.file,
            library=name,
            provider=own.file if own else " or ".join(declared or sorted(packages)),
            kind="bare name",
        ),
        severity=severity,
        cause=("python", link, installed, imported),
        what="Python code opens these libraries by names without a version, which NVIDIA's packages do not have."
        if link
        else "Python code opens these libraries by their bare names, and "
        + (
            "the dynamic linker does not search their folders."
            if installed
            else "no requirement installs them."
        ),
        why=("The import fails with an OSError" if imported else "The code fails with an OSError")
        + (" on machines without a CUDA toolkit" if link else "")
        + ("." if imported else ", unless something else has loaded the libraries before."),
        fix="Open the libraries by their paths: ctypes.CDLL with the path of the file or, for CUDA's, "
        "cuda.pathfinder.load_nvidia_dynamic_lib."
        if installed
        else "Declare the packages, and open the libraries by their paths: ctypes.CDLL with the path of the file, or "
        "cuda.pathfinder.load_nvidia_dynamic_lib.",
    )


def _is_loaded_by_code(graph: LinkGraph, wheel: WheelFacts, name: str, packages: set[str]) -> bool:
    """Return whether other code of the wheel, one of its objects, or the import of another package loads a library."""
    known = graph.declared[wheel.name]
    return (
        bool(wheel.launchers)
        or any(p.pathfinder or p.opens(name) for p in wheel.preloads)
        or any(edge.needed == name and edge.route for edge in graph.edges_of(wheel))
        or any(package in known and known[package].loaded_by for package in packages)
    )


def _other_major(graph: LinkGraph, wheel: WheelFacts, preload: Preload, soname: str) -> int | None:
    """Return the CUDA major of a library that code opens, if the wheel is for another major.

    Code that names the libraries of several majors, or composes their names, chooses among them.
    """
    stem = sonames.stem(soname)
    if not preload.opens(soname) and not any(soname in call.names for call in preload.by_name):
        return None
    libraries = package_tables.candidates(soname)
    majors = {library.cuda for library in libraries}
    major = majors.pop() if len(majors) == 1 and package_tables.other_majors(soname) else None
    if major is None or all(is_tool(library.package) for library in libraries):
        return None
    own = _majors(graph, wheel)
    named = {name for p in wheel.preloads for name in p.sonames if sonames.stem(name) == stem} - {soname}
    composed = any("{" in name for p in wheel.preloads for call in p.by_name for name in call.names)
    return None if not own or major in own or named or composed else major


def _majors(graph: LinkGraph, wheel: WheelFacts) -> set[int]:
    """Return the CUDA majors that a wheel is for: by what its objects NEED, what it requires, and its name."""
    found = {package_tables.major(package) for package in graph.declared[wheel.name]}
    found.add(cuda_major(name for o in wheel.objects for name in o.needed))
    found |= {major_of_suffix(wheel.project), major_of_local(wheel.version)}
    return {major for major in found if major}


@rule(
    "GF213",
    "warning",
    "a library of NVIDIA opens its parts by name, and does not find them",
    applies_to=SEVERAL_FILES,
)
def parts_missing(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find copies of cuDNN, NVRTC, CUPTI or cuFFT whose parts are all missing, or that have no search path to them.

    auditwheel copies NEEDED libraries, and the parts are not NEEDED. If some are there, the others were left out on
    purpose (cuDNN without its training). NVIDIA's own packages are judged, too: those of NVRTC 13.0 have no RUNPATH.
    """
    for found in wheel.linked:
        for always in (True, False):
            names = opened.parts(found, always=always)
            edges = [
                graph.opened[key] for name in names if (key := (wheel.name, found.file, name)) in graph.opened
            ]
            if not edges:
                continue
            lost = [e for e in edges if e.reason == "no path" and not _is_loaded_by_another(graph, e)]
            if lost:
                yield _unreachable(graph, found, lost)
            elif not is_nvidia_wheel(wheel) and all(_is_missing(graph, wheel, e) for e in edges):
                yield _parts_missing(found, names, edges, always=always)
        if is_nvidia_wheel(wheel) and (absent := set(opened.of_own_package(found)) - _names(wheel)):
            yield parts_missing.finding(
                wheel.name,
                Subject(file=found.file, detail="opens", kind="missing", names=tuple(sorted(absent))),
                cause=("absent",),
                what="NVIDIA libraries open parts by name that this release of their package does not have.",
                why="They do without, unless the linker finds another release: then they load its part, and cuDNN "
                "fails with CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH.",
                fix="Take a release of the package that has the parts, or remove the other release from "
                "LD_LIBRARY_PATH and from the system's folders.",
            )


def _names(wheel: WheelFacts) -> set[str]:
    return {name for o in wheel.linked for name in (o.soname, o.name)}


def _is_loaded_by_another(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether another object of the wheel, which has a path to a part, loads it: then opening it succeeds."""
    target = edge.provider.object
    if target is None:
        return any(
            e.needed == edge.needed and (e.route or e.preload)
            for e in graph.edges_of(graph.wheel(edge.loader.wheel))
        )
    return any(user.route or user.preload for user in graph.users(target)) or _is_under_any_name(graph, edge)


def _is_under_any_name(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether an object NEEDs a part under a hashed name: NVRTC uses builtins that are in the process."""
    stem = sonames.stem(edge.needed)
    wheel = graph.wheel(edge.loader.wheel)
    needed = {n for o in wheel.objects for n in o.needed if sonames.stem(sonames.plain_name(n)) == stem}
    return any(o.name in needed for o in wheel.objects)


def _is_missing(graph: LinkGraph, wheel: WheelFacts, edge: Edge) -> bool:
    """Return whether nothing has a part: not the wheel, under any name, and no package that is installed with it."""
    undeclared = edge.provider.source == "package" and not (edge.provider.declared or edge.preload)
    if (edge.reason is None and not undeclared) or edge.obstacle or _is_under_any_name(graph, edge):
        return False
    packages = {library.package for library in package_tables.candidates(edge.needed)}
    given = {each.project for each in graph.wheels}
    if packages & (given | graph.declared[wheel.name].keys()):
        return False
    return not any(preload.opens(edge.needed) for preload in wheel.preloads)


def _parts_missing(binary: ElfObject, names: list[str], edges: list[Edge], *, always: bool) -> Finding:
    packages = sorted({p.package for e in edges for p in package_tables.candidates(e.needed)})
    leave = (
        f"Leave the library out of the wheel, require its package ({' or '.join(packages)}) and add a RUNPATH to it; "
        "or graft the libraries that it opens, too, under their own names."
    )
    return parts_missing.finding(
        binary.wheel,
        Subject(file=binary.file, detail="opens", names=tuple(names)),
        cause=(always, *packages),
        what="NVIDIA libraries in the wheel open other libraries by name, and the wheel contains none of these."
        if always
        else "NVIDIA libraries in the wheel open other libraries for some of their features, and nothing brings these.",
        why="The first call that needs one fails, and cuDNN ends the process, unless the machine has the same version "
        "installed."
        if always
        else "What needs them fails: NVIDIA's own package of the library requires them.",
        fix=leave
        if always
        else f"Require the packages ({', '.join(packages)}) and add a RUNPATH to their folders; or leave the library "
        "out of the wheel, and require NVIDIA's package of it.",
    )


def _unreachable(graph: LinkGraph, binary: ElfObject, edges: list[Edge]) -> Finding:
    """Return the finding of parts that are in the wheel or in a declared package, where no search path leads."""
    return parts_missing.finding(
        binary.wheel,
        Subject(file=binary.file, detail="opens", kind="no path", names=tuple(edge.needed for edge in edges)),
        cause=("no path",),
        what="NVIDIA libraries open other libraries by name, and none of their search paths leads to these.",
        why="The first call that needs one fails, and cuDNN ends the process, unless something else has loaded them "
        "before or LD_LIBRARY_PATH leads to them.",
        fix="Take a release of NVIDIA's package whose libraries have the search path, or add it.",
        commands=commands.search_path(graph, binary),
    )
