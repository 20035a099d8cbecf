"""GF102, GF103, GF104, GF109: CUDA's runtime and libraries, several times in one process."""

import posixpath
import re
from collections.abc import Iterator
from functools import cache

from gpuforge.audit.evidence import files_of
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.grafted_origin import origin
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.processes import (
    FIRST_WINS,
    SEVERAL_PLACES,
    How,
    LibraryOrigin,
    LoadedLibrary,
    Process,
    loaded_cudarts,
    loaded_libraries,
    loads_only_one,
    opened_by_python,
    opened_cudarts,
    own_runtimes,
    processes,
)
from gpuforge.audit.rules.recognise import is_nvidia_library, is_tool, variant_family
from gpuforge.audit.rules.rule import rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import carriers, sonames
from gpuforge.cuda.libraries import is_cudart
from gpuforge.grouping import grouped
from gpuforge.runtime import layout

_OF_MANIFEST = (
    'Write linkage = "pip" in gpuforge.toml: the wheel then has no libcudart of its own, and uses the one that the '
    "other packages use."
)


@rule(
    "GF102",
    "error",
    "two CUDA runtimes would be loaded into one process",
    fix="Leave libcudart out of the wheel (auditwheel repair --exclude 'libcudart.so.*'), and link "
    "every object with the same libcudart.",
    of_process=True,
)
def cudart_copies(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of each major of libcudart in every process; two majors are reported as GF104."""
    reported: list[set[LibraryOrigin]] = []
    for process in processes(graph):
        found = loaded_cudarts(graph, process.objects)
        if process.across:
            found += opened_cudarts(graph, process.objects, list(found))
        for major in sorted({i.soname for i in found}):
            copies = [i for i in found if i.soname == major]
            origins = {i.origin for i in copies}
            if len(origins) > 1 and not any(origins <= known for known in reported):
                reported.append(origins)
                wide, one = process.scope == "environment", loads_only_one(copies)
                wheel = process.blamed([i.wheel for i in copies])
                members = graph.wheel(wheel).members
                yield cudart_copies.finding(
                    wheel,
                    [i.subject("", *origin(graph, i.file)) for i in copies],
                    files=(process.root,) if process.root else [i.file for i in copies if i.file in members],
                    across=process.across,
                    severity="warning" if one or (wide and not graph.one_process) else "error",
                    cause=(one,),
                    what=SEVERAL_PLACES
                    if one
                    else "Several copies of libcudart come into one process"
                    + (" if these wheels are used together." if wide else "."),
                    why=FIRST_WINS
                    if one
                    else "Each copy has its own last error and registered kernels. Kernels that are "
                    "registered with one cannot be launched through the other.",
                    fix=_OF_MANIFEST if graph.one_process else "",
                )


_SHARED = ("pip", "bundle", "system")  # linkages with a shared runtime
_KERNELS = f"/{layout.kernels(layout.HOME)}/"


@rule(
    "GF103",
    "error",
    "a static CUDA runtime and another copy of it would be loaded into one process",
    of_process=True,
)
def cudart_static(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects with a static libcudart beside a shared one (a warning in one import), or beside each other.

    A kernel set's library always shares a process with the wheel's own code, so there it is a warning, too. NVIDIA's
    own libraries contain it by design: they hide its symbols and never share its state.
    """
    yield from _against_manifest(graph)
    reported: list[set[str]] = []
    for process in processes(graph):
        static = [o for o in process.objects if o.has_static_cudart and not is_nvidia_library(graph, o)]
        copies = loaded_cudarts(graph, process.objects)
        names = {o.file for o in static} | {i.origin.name for i in copies}
        if not static or len(names) < 2 or any(names <= known for known in reported):
            continue
        reported.append(names)
        yield _cudart_static_finding(process, static, copies, mixed=_with_kernels(process, static, copies))


def _against_manifest(graph: LinkGraph) -> Iterator[Finding]:
    """Find static runtimes in a wheel whose manifest has the shared one of NVIDIA's package."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or expectation.linkage not in _SHARED:
            continue
        host_only = {file for each in expectation.host_only for file in files_of(each.patterns, wheel)}
        for found in (o for o in wheel.objects if o.file not in host_only):  # reported as GF601
            # with the shared one as well, it came out of a static library of NVIDIA
            both = any(is_cudart(sonames.plain_name(name)) for name in found.needed)
            if found.has_static_cudart and not both and not is_nvidia_library(graph, found):
                yield cudart_static.finding(
                    wheel.name,
                    Subject(file=found.file, kind="static libcudart"),
                    cause=("linkage", expectation.linkage),
                    what="A CUDA runtime is linked into objects statically, and the manifest has linkage = "
                    f'"{expectation.linkage}".',
                    why="Each such object has a runtime of its own beside the shared one of the other packages: last "
                    "errors and registered kernels are not shared.",
                    fix="Remove the option that chooses the static runtime (-cudart=static, CUDA_RUNTIME_LIBRARY "
                    'Static, cudart_static) from the project\'s build; or write linkage = "static".',
                )


def _with_kernels(process: Process, static: list[ElfObject], copies: list[LoadedLibrary]) -> bool:
    """Return whether a kernel set's library has another CUDA runtime than its wheel's other objects."""
    files = [*(o.file for o in static), *(copy.loader for copy in copies)]
    return process.scope == "wheel" and any(_KERNELS in f"/{file}" for file in files)


def _cudart_static_finding(
    process: Process, static: list[ElfObject], shared: list[LoadedLibrary], *, mixed: bool
) -> Finding:
    # an object that needs the shared one, too, got its own from a static library of NVIDIA, not on purpose
    chosen = [o for o in static if not any(map(is_cudart, o.needed))]
    serious = (process.scope == "import" or mixed) and bool(shared) and bool(chosen)
    wheel = process.blamed([o.wheel for o in static])
    own = [o for o in static if o.wheel == wheel]
    return cudart_static.finding(
        wheel,
        (
            *(Subject(file=o.file, detail="static", wheel=o.wheel) for o in static),
            *(library.subject() for library in shared),
        ),
        files=tuple(o.file for o in own),
        across=process.across,
        severity="warning" if serious else "info",
        cause=(mixed,),
        what="A kernel library and the rest of the wheel have different CUDA runtimes, one of them linked "
        "statically."
        if serious and mixed
        else "One import loads a statically linked CUDA runtime and another copy of it."
        if serious
        else "Several CUDA runtimes can be in one process, and some of them are linked statically.",
        why="Each has its own last error and registered kernels.",
        fix="Let gpuforge choose the runtime: remove -cudart from the flags in gpuforge.toml, and "
        "CUDA_RUNTIME_LIBRARY from the host build."
        if serious and mixed
        else "Use the shared libcudart in all objects that share device state (nvcc --cudart=shared). "
        "None needed if they share only pointers, streams and events.",
    )


_OF_CUDA = r"(?i)(nvidia|cuda|cutensor)[-_.]"

_HOW: dict[How, str] = {"linked": "", "static": "linked statically", "opened": "opened at run time"}

_ByMajor = dict[int, dict[str, LoadedLibrary]]  # major -> SONAME


@rule("GF104", "error", "libraries of two CUDA majors would be loaded into one process", of_process=True)
def cuda_majors(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the majors of the CUDA libraries that one process loads, by SONAMEs that only one major has."""
    reported: set[frozenset[tuple[int, str]]] = set()
    reported_wheels: set[str] = set()  # the wheels whose objects are reported to meet
    for process in processes(graph):
        found = _loaded_majors(graph, process)
        if len(found) < 2:
            continue
        key = frozenset((major, name) for major, names in found.items() for name in names)
        if any(key <= known for known in reported):
            continue
        reported.add(key)
        reported_wheels.update(o.wheel for o in process.objects)
        wide = process.scope != "import"
        sure = not wide or (process.across and graph.one_process)
        yield cuda_majors.finding(
            process.blamed([i.wheel for names in found.values() for i in names.values()]),
            tuple(
                Subject(
                    item=f"CUDA {major}",
                    library=copy.requested,
                    detail=_HOW[copy.how],
                    kind="" if copy.how == "linked" else copy.how,
                    loaded_by=copy.loaders,
                    imported_by=copy.importers,
                    wheel=copy.wheel,
                )
                for major, names in sorted(found.items())
                for copy in names.values()
            ),
            files=(process.root,) if process.root else (),
            across=process.across,
            severity="error" if sure else "warning",
            what="Libraries of two CUDA majors come into one process if all these modules are imported."
            if wide
            else "One import loads libraries of two CUDA majors.",
            why="Each major has its own runtime, so library handles (cuBLAS, cuFFT) and kernels of one are invalid in "
            "the other.",
            fix="Build everything that is used together for one CUDA major, and limit the requirements to it.",
        )
    yield from _required(graph, reported_wheels)


@cache
def major_of(soname: str) -> int | None:
    """Return the only CUDA major that has a library of this SONAME; None for several or none."""
    plain = sonames.plain_name(soname)
    majors = {library.cuda for library in package_tables.candidates(plain)}
    return majors.pop() if len(majors) == 1 and package_tables.other_majors(plain) else None


def _has_major(soname: str) -> bool:
    return major_of(soname) is not None


def _loaded_majors(graph: LinkGraph, process: Process) -> _ByMajor:
    found: _ByMajor = {}
    every = loaded_libraries(graph, process.objects, _has_major)
    own = (*own_runtimes(graph, process.objects), *opened_by_python(graph)) if process.across else ()
    for copy in (*every, *loaded_cudarts(graph, process.objects), *own):
        major = major_of(copy.soname)
        of_major = found.setdefault(major, {}) if major is not None else {}
        # a libcudart is there twice, once under its major only
        if all(
            (copy.origin, copy.requested) != (other.origin, other.requested) for other in of_major.values()
        ):
            of_major.setdefault(copy.soname, copy)
    return found


def _required(graph: LinkGraph, reported_wheels: set[str]) -> Iterator[Finding]:
    """Find required packages for two CUDA majors, or for another major than the wheel's own libraries.

    Python code imports them into one process.

    A NEEDED library of another major is reported as GF204. A wheel that requires both majors by name chooses one at run
    time.
    """
    brought = {wheel.name: _brought(graph, wheel) for wheel in graph.wheels}
    both = {wheel.project for wheel in graph.wheels if len(brought[wheel.name]) > 1}
    for wheel in graph.wheels:
        majors = brought[wheel.name]
        if (
            len(majors) < 2
            or wheel.name in reported_wheels
            or any(d.package in both - {wheel.project} for d in graph.required_always(wheel.name))
        ):
            continue  # reported for the required wheel that brings both
        needed = {
            package_tables.major(e.provider.package)
            for e in graph.edges_of(wheel)
            if e.provider.declared is None
        }
        chosen = all(lines and re.match(_OF_CUDA, lines[0]) for by in majors.values() for lines in by)
        if not chosen and not needed & majors.keys():
            yield cuda_majors.finding(
                wheel.name,
                tuple(
                    Subject(
                        item=f"CUDA {cuda}",
                        detail="{packages:3}, by {requirements:lines}"
                        if lines
                        else "{libraries:3}, in the wheel",
                        facts=facts_of(packages=tuple(names), requirements=lines)
                        if lines
                        else facts_of(libraries=tuple(names)),
                        kind="packages",
                        about=tuple(sorted(names)),
                    )
                    for cuda, brought_by in sorted(majors.items())
                    for lines, names in brought_by.items()
                ),
                severity="warning",
                cause=("requirements",),
                what="The requirements bring libraries of two CUDA majors."
                if all(lines for by in majors.values() for lines in by)
                else "The requirements bring libraries of another CUDA major than the libraries in the wheel.",
                why="A process that imports both has two CUDA runtimes, and needs a driver for the newer one.",
                fix="Build for the CUDA major of the required package (torch), or limit its version to releases "
                "for this major.",
            )


def _brought(graph: LinkGraph, wheel: WheelFacts) -> dict[int, dict[tuple[str, ...], list[str]]]:
    """Return the packages of each CUDA major that are installed with a wheel, by the requirement lines that bring them.

    Packages with the same files are left out: an environment has only one of them (GF709). The wheel's own libraries,
    if all are of one major, are under no lines.
    """
    expectation = graph.expectation_of(wheel)
    apart = expectation.indexes if expectation else ()
    always = (d for d in graph.required_always(wheel.name) if d.requirement.name not in apart)
    required = sorted(always, key=lambda d: d.package)
    known = [d for d in required if package_tables.major(d.package) and not is_tool(d.package)]
    found: dict[int, dict[tuple[str, ...], list[str]]] = {}
    for one in known:
        cuda = package_tables.major(one.package)
        clash = any(
            package_tables.files(one.package) & package_tables.files(d.package) for d in known if d is not one
        )
        if cuda is not None and not clash:
            found.setdefault(cuda, {}).setdefault(one.lines, []).append(one.package)
    own = _own(graph, wheel) if found else {}
    if len(own) == 1:
        found.setdefault(next(iter(own)), {})[()] = [name for names in own.values() for name in names]
    return found


def _own(graph: LinkGraph, wheel: WheelFacts) -> dict[int, list[str]]:
    """Return the libraries of each CUDA major in the wheel, without tools, and objects with a runtime of their own."""
    found: dict[int, list[str]] = {}
    for runtime in own_runtimes(graph, wheel.objects):
        if (cuda := major_of(runtime.soname)) is not None:
            found.setdefault(cuda, []).append(runtime.loader)
    for name in sorted({o.name for o in wheel.linked}):
        cuda = major_of(name)
        packages = {library.package for library in package_tables.candidates(sonames.plain_name(name))}
        if cuda is not None and not all(map(is_tool, packages)):
            found.setdefault(cuda, []).append(name)
    return found


@rule(
    "GF109",
    "warning",
    "a CUDA library would be loaded into one process several times",
    why="Each copy takes its own GPU memory, and handles and communicators of one are invalid in the other.",
    fix="Leave CUDA libraries out of the wheel (auditwheel repair --exclude NAME), and require the "
    'packages that bring them. gpuforge build with linkage = "pip" does both.',
    of_process=True,
)
def cuda_libraries(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of each CUDA library in every process.

    Copies of libcudart are reported as GF102, a wheel's own library beside a grafted copy as GF108.
    """
    reported: list[set[LibraryOrigin]] = []
    members = {wheel.name: wheel.members for wheel in graph.wheels}
    for process in processes(graph):
        by_name = grouped((each.soname, each) for each in loaded_libraries(graph, process.objects, _counts))
        for soname, own in by_name.items():
            found = [*own, *_imported(graph, process, soname, own)]
            origins = {i.origin for i in found}
            # one name in several wheels, some of which open it by a path that is not known
            unsure = process.scope == "environment" and len({i.requested for i in found}) == 1
            files = {i.file for i in found}
            inside = files <= members.get(process.wheel, {}).keys() and any(
                posixpath.basename(file) == soname for file in files
            )
            known = unsure or inside or loads_only_one(found) or any(origins <= known for known in reported)
            if len(origins) > 1 and not known:
                reported.append(origins)
                yield cuda_libraries.finding(
                    process.blamed([i.wheel for i in found]),
                    tuple(i.subject(item=soname) for i in found),
                    files=(process.root,) if process.root else (),
                    across=process.across,
                    severity="warning" if process.scope == "import" else "info",
                    what="One import loads several copies of a CUDA library."
                    if process.scope == "import"
                    else "Modules that are imported together load several copies of a CUDA library.",
                )


def _counts(soname: str) -> bool:
    """Return whether two copies of a library of this name each have a state of their own: tools have none."""
    packages = {library.package for library in package_tables.candidates(soname)}
    return not is_cudart(soname) and any(
        package in carriers.nvidia_packages() and not is_tool(package) for package in packages
    )


def _imported(
    graph: LinkGraph, process: Process, soname: str, own: list[LoadedLibrary]
) -> Iterator[LoadedLibrary]:
    """Yield the library that importing a package (torch) has loaded, if no object requests it by its plain name."""
    if any(i.requested == soname for i in own):
        return
    packages = {library.package for library in package_tables.candidates(soname)}
    for found_object in process.objects:
        imported = {e.imported_unseen for e in graph.from_object(found_object)} - {""}
        if not imported or variant_family(found_object):
            continue
        for known in graph.declared[found_object.wheel].values():
            if known.package in packages and known.loaded_by in imported:
                origin = LibraryOrigin("package", known.package)
                yield LoadedLibrary(origin, soname, found_object.wheel, "", soname, imported=known.loaded_by)
                return
