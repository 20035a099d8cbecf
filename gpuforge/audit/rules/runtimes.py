"""The other rules of GF1xx: runtimes of compilers and libraries of all kinds, several times in one process."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from gpuforge.audit import layout
from gpuforge.audit.embedded import Recipe
from gpuforge.audit.findings import Finding, Subject, facts_of, join
from gpuforge.audit.grafted_origin import sha256
from gpuforge.audit.layout import left_over_folder
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import key
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import Compilers, WheelFacts
from gpuforge.audit.rules.processes import (
    FIRST_WINS,
    SEVERAL_PLACES,
    LibraryOrigin,
    loaded_libraries,
    loads_only_one,
    processes,
)
from gpuforge.audit.rules.recognise import is_nvidia_library
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.libraries import CompilerRuntimes
from gpuforge.cuda.suffix import is_of_nvidia
from gpuforge.cuda.version import numbers_of
from gpuforge.runtime.layout import HOME, kernels

if TYPE_CHECKING:
    from gpuforge.audit.against import Against


_CUDART = CompilerRuntimes("cudart", "CUDA runtime")
_ARTEFACTS = (
    r"(?P<archives>.*\.a)|(?P<objects>.*\.o)|(?P<makefiles>(?i:.*makefile(\.\w+)?|.*\.mk))"
    r"|(?P<configs>.*(-config|Config|Targets|-targets)\.cmake|.*\.pc)"
)
_LIKE_ARTEFACTS = (".a", ".o", ".mk", ".cmake", ".pc")  # a faster test than the pattern

# Archives of the CUDA toolkit itself are inputs of nvcc and nvlink, not outputs of a host compiler.
_TOOLKIT = r"libcudadevrt\.a|libcudart_static\.a|lib(cu|nv|npp)\w*_static(_nocallback)?\.a"


@rule(
    "GF101",
    "error",
    "a toolchain runtime is grafted under a hashed name, and a user's link brings the plain one",
)
def runtimes_hashed(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find wheels that have hashed runtimes and files that users link against."""
    yield from _sources(graph, wheel)
    artefacts = link_artefacts(wheel)
    if not artefacts:
        return
    # from which their compilers learn how to link
    for_users = _artefacts(wheel).keys() & {"makefiles", "configs"}
    grafted = [(o, family) for o in wheel.objects if (family := _grafted(o))]
    # the runtimes of OpenMP do less harm, and a single archive may be left over from the build
    for openmp in (False, True):
        chosen = [(o, f) for o, f in grafted if (bool(f.openmp) and not f.one_release) == openmp]
        if chosen:
            yield runtimes_hashed.finding(
                wheel.name,
                (
                    *(_subject(graph, o, family) for o, family in chosen),
                    *(
                        Subject(file=file, item=compiler, kind=compiler.kind)
                        for compiler, file in _asked_of_users(wheel).items()
                        if any(family.one_release for _, family in chosen)
                    ),
                ),
                files=tuple(o.file for o, _ in chosen),
                severity=("warning" if for_users else "info") if openmp else "error",
                what="Toolchain runtimes are in the wheel under hashed names, and users link against this wheel "
                f"({artefacts}).",
                why="A user's link brings the same runtimes under their plain names, so two copies run in one "
                "process.",
                fix="Use only g++ to compile the libraries that users link against, or leave these runtimes out "
                "of the wheel (auditwheel repair --exclude NAME) and document which toolchain users need.",
            )


def _sources(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find hashed runtimes that libraries compiled from the wheel's sources load by their plain names."""
    grafted = [(o, family) for o in wheel.objects if (family := _grafted(o))] if wheel.sources else []
    met = [(o, family, brought) for o, family in grafted if (brought := _brought(graph, wheel, o, family))]
    if met:
        yield runtimes_hashed.finding(
            wheel.name,
            tuple(_beside_sources(graph, o, family, brought) for o, family, brought in met),
            files=tuple(o.file for o, _, _ in met),
            cause=("sources",),
            what="Toolchain runtimes are in the wheel under hashed names, and the libraries that users "
            "compile from its sources bring the plain ones.",
            why="Both copies would run in one process, so `compile` refuses these toolchains.",
            fix="Build the host code without these runtimes (no -fopenmp), or remove these "
            "toolchains from the object.",
        )


def _beside_sources(
    graph: LinkGraph, binary: ElfObject, family: CompilerRuntimes, brought: list[tuple[str, str, str]]
) -> Subject:
    runtimes, toolchains, objects = (tuple(dict.fromkeys(column)) for column in zip(*brought, strict=True))
    return Subject(
        library=binary.file,
        provider=family.title,
        detail="the toolchain {toolchains} of {objects} brings {runtimes}"
        if len(toolchains) == 1
        else "the toolchains {toolchains} of {objects} bring {runtimes}",
        facts=facts_of(runtimes=runtimes, toolchains=toolchains, objects=objects),
        loaded_by=tuple(dict.fromkeys(e.loader.name for e in graph.users(binary))),
    )


def _brought(
    graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, family: CompilerRuntimes
) -> list[tuple[str, str, str]]:
    """Return the runtimes of a family that user-compiled libraries need, each with its toolchain and object.

    A library of an object's fallbacks, and what is loaded with it alone, is not in a process with what replaces it.
    """
    roots = [root.file for root in graph.roots(binary)]
    return [
        (name, toolchain.name, sources.name)
        for sources in wheel.sources
        if isinstance(sources.recipe, Recipe) and not _replaces(sources.recipe, roots)
        for toolchain in sources.recipe.toolchains
        for name in toolchain.runtimes
        if _family(name) == family
    ]


def _replaces(recipe: Recipe, roots: Collection[str]) -> bool:
    folders = [f"/{kernels(HOME, name)}/" for name in recipe.fallbacks]
    return bool(roots) and all(any(folder in f"/{root}" for folder in folders) for root in roots)


def link_artefacts(wheel: WheelFacts) -> str:
    """Describe the files that users link against: "5 archives, nrnmech_makefile"; "" if there are none."""
    found = _artefacts(wheel)
    words = {
        "archives": "archive",
        "objects": "object file",
        "makefiles": "makefile",
        "configs": "build configuration",
    }
    return ", ".join(
        names[0] if len(names) == 1 else f"{len(names)} {words[kind]}s such as {names[0]}"
        for kind in words
        if (names := found.get(kind))
    )


def _artefacts(wheel: WheelFacts) -> dict[str, list[str]]:
    """Return the names of archives, object files, makefiles and build configurations in a wheel."""
    found: dict[str, list[str]] = {}
    for member in wheel.members:
        name = member.rpartition("/")[2]
        if not name.lower().endswith(_LIKE_ARTEFACTS) and "makefile" not in name.lower():
            continue
        if re.fullmatch(_TOOLKIT, name) or "/tests/" in member or left_over_folder(member):
            continue
        if match := re.fullmatch(_ARTEFACTS, name):
            kind = next(k for k, v in match.groupdict().items() if v is not None)
            found.setdefault(kind, []).append(name)
    return found


def _grafted(binary: ElfObject) -> CompilerRuntimes | None:
    """Return the family of the runtime that has this hashed name; None for other files."""
    plain = sonames.plain_name(binary.name)
    return None if plain == binary.name else _family(plain)


def _family(plain: str) -> CompilerRuntimes | None:
    """Return the family of the runtime with this plain name; None for other names."""
    if libraries.is_cudart(plain):
        return _CUDART
    family = libraries.compiler_runtime(plain)
    return family if family and family.title else None


def _subject(graph: LinkGraph, binary: ElfObject, family: CompilerRuntimes) -> Subject:
    users = [edge.loader for edge in graph.users(binary)]
    versions = sorted({v for o in users if (v := sdk_version(o))}) if family.one_release else []
    linkable = tuple(dict.fromkeys(o.name for o in users if _linkable(o)))
    return Subject(
        library=binary.name,
        provider=" ".join([family.title, *versions]),
        detail="{plain} comes beside it when users link against" if linkable else "",
        facts=facts_of(plain=sonames.plain_name(binary.name)) if linkable else (),
        names=linkable,
        loaded_by=tuple(dict.fromkeys(o.name for o in users)) or ("nothing in the wheel",),
    )


def _linkable(binary: ElfObject) -> bool:
    """Return whether users may link against an object: a library whose name has no hash."""
    return not binary.is_program and re.fullmatch(r"lib[^-]+\.so", binary.name) is not None


def _asked_of_users(wheel: WheelFacts) -> Mapping[Compilers, str]:
    """Return the compilers that the wheel's build files require of its users, each with the first file that does."""
    first_files: dict[Compilers, str] = {}
    for each in wheel.build_compilers:
        first_files.setdefault(each.compilers, each.file)
    return first_files


def sdk_version(binary: ElfObject) -> str:
    """Return the newest HPC SDK with traces in an object, "22.1"; "" for none, and for the SDK's own runtimes."""
    if not binary.producers or libraries.is_of_one_release(binary.name):
        return ""
    return max(binary.producers, key=numbers_of, default="")


@rule(
    "GF105",
    "warning",
    "several OpenMP runtimes would be loaded into one process",
    fix="Graft one OpenMP runtime for all objects, or require a package that brings it.",
    of_process=True,
)
def openmp_copies(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of OpenMP runtimes in every process."""
    reported: list[set[LibraryOrigin]] = []
    for process in processes(graph):
        found = loaded_libraries(graph, process.objects, libraries.is_openmp)
        names = {i.origin for i in found}
        if len(names) > 1 and not any(names <= known for known in reported):
            reported.append(names)
            mixed = len({libraries.compiler_runtime(i.soname) for i in found}) > 1
            one = loads_only_one(found)
            yield openmp_copies.finding(
                process.blamed([i.wheel for i in found]),
                [i.subject() for i in found],
                files=(process.root,) if process.root else (),
                across=process.across,
                severity="info" if one or (process.scope == "environment" and not mixed) else "warning",
                cause=(one, process.scope == "import", mixed),
                what=SEVERAL_PLACES
                if one
                else "One import loads several OpenMP runtimes."
                if process.scope == "import"
                else "Modules that are imported together load several OpenMP runtimes.",
                why=FIRST_WINS
                if one
                else "Each starts its own threads and oversubscribes the CPU"
                + (", and runtimes of different compilers can hang or abort each other." if mixed else "."),
            )


@rule(
    "GF106",
    "warning",
    "objects of two NVIDIA HPC SDKs would be loaded into one process",
    what="Objects of two NVIDIA HPC SDK versions come into one process.",
    why="nvc++ promises no link compatibility between its versions. Its runtimes have the same names in all of them, "
    "so the linker loads those of one version for all objects: the others can miss functions (undefined symbol) and "
    "crash in OpenACC and OpenMP. If they are grafted under hashed names, several are loaded: data that code of one "
    "version has put on the GPU is not present for the others.",
    fix="Compile all of them with one HPC SDK, or with g++.",
    of_process=True,
)
def sdk_versions(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the SDKs that compiled the objects, by their debug info and their search paths of the build machine.

    The SDK's own runtimes were built by an older SDK, and are left out.
    """
    reported: set[frozenset[str]] = set()
    for process in processes(graph):
        compiled = [(o, v) for o in process.objects if (v := sdk_version(o))]
        versions = frozenset(v for _, v in compiled)
        if len(versions) < 2 or versions in reported:
            continue
        reported.add(versions)
        wheel = process.blamed([o.wheel for o, _ in compiled])
        yield sdk_versions.finding(
            wheel,
            [
                Subject(
                    file=o.file, detail="NVIDIA HPC SDK {version}", facts=facts_of(version=v), wheel=o.wheel
                )
                for o, v in compiled
            ],
            files=tuple(o.file for o, _ in compiled if o.wheel == wheel),
            across=process.across,
        )


_CXX = "libstdc++"  # the group of symbols that the audit looks for
_CXX_LIBRARIES = r"lib(stdc\+\+|supc\+\+|c\+\+|c\+\+abi)[.-]"
# the parts of glibc and musl that are in every process
_C = r"ld-[\w-]+\.so(\.\d+)?|lib(c|m|dl|rt|pthread|mvec)(\.so\.\d|-2\.\d+\.so)|libc\.musl-\w+\.so(\.\d+)?"


@rule("GF107", "warning", "two C or C++ standard libraries would be loaded into one process", of_process=True)
def cxx_libraries(graph: LinkGraph) -> Iterator[Finding]:
    """Find C and C++ standard libraries that one import loads in addition to those of the process."""
    yield from _of_cxx(graph)
    yield from _static(graph)
    yield from _of_c(graph)


def _is_c(soname: str) -> bool:
    return re.fullmatch(_C, soname) is not None


def _is_cxx(soname: str) -> bool:
    return soname.startswith(("libstdc++.so", "libstdc++-"))  # libstdc++-demo.so.6 was renamed by hand


def _of_c(graph: LinkGraph) -> Iterator[Finding]:
    """Find parts of the C library in wheels: every process has all of them before it loads a module."""
    names = {sonames.plain_name(o.name) for o in graph.linked}
    if not any(map(_is_c, names)):
        return  # nearly all wheels have none
    for process in processes(graph):
        found = loaded_libraries(graph, process.objects, _is_c)
        for copy in (i for i in found if i.origin.source != "system"):
            if process.scope == "import" and copy.wheel == process.wheel:
                yield cxx_libraries.finding(
                    process.wheel,
                    copy.subject(),
                    files=(copy.origin.name,),
                    cause=("C library",),
                    what="The wheel contains a part of the C library.",
                    why="Every process has loaded the C library of the system, and parts of another version can "
                    "crash it.",
                    fix="Leave the C library out of the wheel: `auditwheel repair` does so.",
                )


def _static(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects that export a libstdc++ that is linked into them, where the process has a shared one.

    The dynamic linker binds what is inlined in one copy to the functions of the other. Renamed copies of the library
    itself are counted by `_of_cxx`, except beside a package that is not at hand.
    """
    reported: set[tuple[str, str]] = set()
    for process in processes(graph):
        static = [o for o in process.objects if o.defined(_CXX)] if process.wheel else []
        shared = next((o.name for o in process.objects if any(map(_is_plain, o.needed))), "")
        for found in static:
            own = _is_own(found)
            if own and (shared or not _is_cxx(found.name) or _is_plain(found.soname or found.name)):
                continue
            # the import of one (torch) may load C++ libraries before
            always = graph.required_always(found.wheel)
            beside = shared or next((d.loaded_by for d in always if d.loaded_by), "")
            if beside and found.wheel == process.wheel and (found.wheel, found.file) not in reported:
                reported.add((found.wheel, found.file))
                yield cxx_libraries.finding(
                    found.wheel,
                    Subject(
                        file=found.file,
                        detail="beside {beside}, which needs libstdc++.so.6"
                        if own
                        else "beside {beside}, which needs libstdc++.so.6; defines",
                        facts=facts_of(beside=beside),
                        kind="static C++",
                        names=() if own else tuple(sorted(found.defined(_CXX))),
                    ),
                    cause=("renamed" if own else "static",),
                    text=_RENAMED if own else _STATIC,
                )


_STATIC = Text(
    "A C++ library is linked into objects statically, and its symbols are exported.",
    "The shared libstdc++ is in the process, too, and functions of the two are mixed: exceptions, locales and streams "
    "crash.",
    "Link without -static-libstdc++, as the manylinux policies promise the library; or hide its symbols: "
    "-Wl,--exclude-libs,ALL",
    "warning",
)
_RENAMED = Text(
    "A copy of libstdc++ is in the wheel under another name.",
    "The system's libstdc++ is in the process, too, and functions of the two are mixed: exceptions, locales and "
    "streams crash, in one order of imports or in both.",
    "Leave it out, as the manylinux policies promise the library. Build with a compiler whose libstdc++ is not newer "
    "than that of the tag: GCC of the manylinux images links what is newer statically.",
    "warning",
)


def _is_plain(name: str) -> bool:
    return name.startswith("libstdc++.so")


def _is_own(binary: ElfObject) -> bool:
    """Return whether an object is a C++ library itself."""
    return re.match(_CXX_LIBRARIES, sonames.plain_name(binary.soname or binary.name)) is not None


def _of_cxx(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of libstdc++ that one import loads; libc++ shares no symbol with it."""
    reported: list[set[LibraryOrigin]] = []
    for process in processes(graph):
        found = loaded_libraries(graph, process.objects, _is_cxx)
        origins = {i.origin for i in found}
        if process.scope == "environment" or len(origins) < 2 or any(origins <= known for known in reported):
            continue
        reported.append(origins)
        one = loads_only_one(found)
        yield cxx_libraries.finding(
            process.wheel,
            tuple(i.subject() for i in found),
            files=tuple(dict.fromkeys(i.loader for i in found if i.wheel == process.wheel and i.loader)),
            severity="info" if one else "warning",
            what=SEVERAL_PLACES if one else "Several copies of libstdc++ come into one process.",
            why=FIRST_WINS
            if one
            else "Exceptions, locales and streams that cross from one copy to the other fail.",
            fix="Graft one libstdc++ for all objects, as auditwheel repair does for musllinux tags: systems with musl "
            "may lack it."
            if any(tag.startswith("musllinux") for tag in graph.wheel(process.wheel).platforms)
            else "Use the system's libstdc++, which the manylinux policies promise, for all objects: "
            "auditwheel repair --exclude libstdc++.so.6",
        )


@rule(
    "GF108",
    "error",
    "a library is in the wheel twice, under its own name and as a grafted copy",
    of_process=True,
)
def library_twice(graph: LinkGraph) -> Iterator[Finding]:
    """Find hashed copies of a library that the wheel also has under its own name, if objects of the wheel need both.

    Where every import that loads the copy has loaded the original before, the linker finds all functions in the
    original (seen by LD_DEBUG=bindings with ortools 9.14).

    Across the given wheels: copies with the same bytes as a library of NVIDIA's packages.
    """
    for wheel in graph.wheels:
        plain = [o for o in wheel.linked if sonames.plain_name(o.name) == o.name]
        originals = {o.soname or o.name: o for o in plain} | {o.name: o for o in plain}
        for copy in (o for o in wheel.linked if sonames.plain_name(o.name) != o.name):
            original = next((originals[n] for n in _names(copy) if n in originals), None)
            # a library is not linked with itself: an object that needs the copy has only its name
            if original is None or copy.name in original.needed:
                continue
            if graph.users(copy) and graph.users(original):
                yield _twice(graph, copy, original)
    yield from _across(graph)


def _names(copy: ElfObject) -> Iterator[str]:
    """Yield the possible names of the library that was copied: libx.so.26.10.00, libx.so.26.10, libx.so.26.

    auditwheel names a copy after the file with its versions, and rewrites its SONAME. A file with a version in its name
    has one in its SONAME, so libx.so is another library.
    """
    name = sonames.plain_name(copy.name)
    yield name
    while ".so." in (name := name.rpartition(".")[0]):
        yield name


def _twice(graph: LinkGraph, copy: ElfObject, original: ElfObject) -> Finding:
    def loaded(binary: ElfObject) -> Subject:
        return Subject(
            library=binary.file, loaded_by=tuple(dict.fromkeys(e.loader.name for e in graph.users(binary)))
        )

    orders = [[key(each) for each in loads.objects] for loads in graph.load_sets_of(copy)]
    users = {key(edge.loader) for edge in graph.users(original)}
    shadowed = all(
        key(original) in order[: order.index(key(copy))] and not users.isdisjoint(order) for order in orders
    )
    return library_twice.finding(
        copy.wheel,
        (loaded(original), loaded(copy)),
        files=(original.file, copy.file),
        severity="warning" if shadowed else "error",
        cause=(shadowed,),
        what="A library is in the wheel twice: under its own name and as a grafted copy.",
        why="One import loads both. Its code calls the first copy alone where that has the function, and what runs "
        "when a library is loaded or unloaded may run twice on the same data."
        if shadowed
        else "Objects that load one copy do not see the data of the other.",
        fix="Link all objects with one library: set a RUNPATH relative to $ORIGIN before `auditwheel "
        "repair`, and pass --exclude for the library.",
    )


def _across(graph: LinkGraph) -> Iterator[Finding]:
    alike: dict[str, list[tuple[WheelFacts, ElfObject]]] = {}
    for wheel in graph.wheels:
        for found in (o for o in wheel.linked if not o.is_program):
            if not found.is_python_module and (digest := sha256(wheel, found.file)):
                alike.setdefault(digest, []).append((wheel, found))
    for owners in alike.values():
        owner, original = min(owners, key=_ownership)
        for wheel, copy in owners:
            if wheel.project != owner.project and not _one_copy(graph, original, copy):
                runtime = is_nvidia_library(graph, copy) or libraries.compiler_runtime(copy.name) is not None
                yield library_twice.finding(
                    wheel.name,
                    Subject(
                        file=copy.file,
                        detail="{original} of {owner}",
                        facts=facts_of(original=original.file, owner=owner.name),
                    ),
                    severity="warning" if runtime else "info",
                    cause=("another package",),
                    what="These libraries are byte for byte those of another package.",
                    why="A process that uses both packages loads both copies.",
                    fix="Leave them out of the wheel (auditwheel repair --exclude NAME), and require the package.",
                )


def _ownership(owners: tuple[WheelFacts, ElfObject]) -> tuple[bool, bool]:
    """Order wheels with the same library: NVIDIA's own first, then those that have it under its own name."""
    wheel, found = owners
    return not is_of_nvidia(wheel.project), sonames.plain_name(found.name) != found.name


def _one_copy(graph: LinkGraph, original: ElfObject, copy: ElfObject) -> bool:
    """Return whether both are loaded as one: one file in the same place, or one SONAME to the linker."""
    if layout.install_path(copy.file) == layout.install_path(original.file):
        return True
    hashed = sonames.plain_name(copy.name) != copy.name
    same = copy.name == original.name and copy.soname == original.soname
    return same and (hashed or not is_nvidia_library(graph, copy))


@rule(
    "GF110",
    "error",
    "a user's own build would bring a second copy of a library into the process",
    of_process=True,
    contradicts="against",
)
def user_build_copies(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the libraries that are loaded from each wheel with those that `--against` brings."""
    if graph.against is None:
        return
    for wheel in graph.wheels:
        copies = tuple(_own_copies(graph, wheel, graph.against))
        needed = tuple(_of_others(graph, wheel, graph.against))
        if copies or needed:
            yield user_build_copies.finding(
                wheel.name,
                join((*copies, *needed)),
                files=tuple(dict.fromkeys([*(s.file for s in copies), *(s.needed_by[0] for s in needed)])),
                what=f"Code that users build with {graph.against.label} brings second copies of libraries that "
                "this wheel loads.",
                why="Both copies run in one process, each with its own state.",
                fix="Use only g++ to compile the libraries that users link against, and leave these libraries out of "
                "the wheel: auditwheel repair --exclude NAME",
            )
        if required := tuple(_of_required(graph, wheel, graph.against)):
            yield user_build_copies.finding(
                wheel.name,
                required,
                severity="warning",
                cause=("required",),
                what=f"Packages that the wheel requires have other versions of libraries that {graph.against.label} "
                "brings.",
                why="Once both are loaded, two copies run in one process, each with its own state.",
                fix="Require packages of the same CUDA release as that of your users.",
            )


def _own_copies(graph: LinkGraph, wheel: WheelFacts, against: Against) -> Iterator[Subject]:
    for found in wheel.objects:
        if not found.links or found.is_program:
            continue
        if others := against.second_copies(found.soname or found.name):
            ways = _ways(graph, found)
            yield Subject(
                file=found.file,
                detail="loaded through {through:3}; {against} brings"
                if ways
                else "NEEDED by nothing in the wheel; {against} brings",
                facts=facts_of(through=ways, against=against.label),
                names=others,
            )
        elif found.has_static_cudart and (others := against.brings("libcudart.so")):
            yield Subject(
                file=found.file,
                detail="a CUDA runtime is linked in; {against} brings",
                facts=facts_of(against=against.label),
                kind="static",
                names=others,
            )


def _of_others(graph: LinkGraph, wheel: WheelFacts, against: Against) -> Iterator[Subject]:
    for edge in graph.edges_of(wheel):
        if edge.provider.source != "wheel" and (others := against.second_copies(edge.needed)):
            target = edge.provider.object
            yield Subject(
                library=edge.needed,
                provider=edge.provider.package or (graph.wheel(target.wheel).project if target else ""),
                detail="{against} brings",
                facts=facts_of(against=against.label),
                names=others,
                needed_by=(edge.loader.file,),
            )


def _of_required(graph: LinkGraph, wheel: WheelFacts, against: Against) -> Iterator[Subject]:
    """Yield libraries of NVIDIA's packages that the wheel always requires but does not NEED."""
    needed = {edge.needed for edge in graph.edges_of(wheel)}
    for known in graph.required_always(wheel.name):
        lacks = {*known.lacks, *known.unseen, *needed}
        for name in sorted(package_tables.sonames_of(known.package) - lacks):
            if others := against.other_versions(name):
                yield Subject(
                    library=name,
                    provider=known.package,
                    detail="{against} brings",
                    facts=facts_of(against=against.label),
                    names=others,
                )


def _ways(graph: LinkGraph, binary: ElfObject) -> tuple[str, ...]:
    """Return the libraries that users link against and that load an object; without any, the roots that load it."""
    above = _above(graph, binary)
    linked = [o.name for o in above if not o.is_program and re.fullmatch(r"lib[^-]+\.so(\.\d+)*", o.name)]
    first = [o.name for o in above if not graph.users(o)]
    return tuple(dict.fromkeys(linked or first))


def _above(graph: LinkGraph, binary: ElfObject) -> list[ElfObject]:
    """Return all objects that need one, directly or through others, the nearest first."""
    queue = deque([binary])
    seen = {(binary.wheel, binary.file): binary}
    while queue:
        for edge in graph.users(queue.popleft()):
            place = edge.loader.wheel, edge.loader.file
            if place not in seen:
                seen[place] = edge.loader
                queue.append(edge.loader)
    return list(seen.values())[1:]


_SET = re.compile(rf".*{kernels(HOME)}/[^/]+/")
_EVERY = "halide_error"


@rule("GF111", "error", "several libraries of a wheel have Halide's runtime", of_process=True)
def halide_runtimes(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Count the libraries that define the runtime. Those of one kernel set are alternatives: only one is opened."""
    opened: dict[str, list[str]] = {}
    gpus = set()
    for found in sorted(wheel.linked, key=lambda o: o.file):
        if _EVERY in (symbols := found.defined("halide")):
            alternatives = _SET.match(found.file)
            place = alternatives[0] if alternatives else found.file
            opened.setdefault(place, []).append(found.file)
            gpus |= {place} if symbols - {_EVERY} else set()
    if len(opened) > 1:
        subjects = [Subject(file=files[0]) for files in opened.values()]
        yield halide_runtimes.finding(wheel.name, subjects, text=_FOR_GPUS if len(gpus) > 1 else _FOR_CPUS)


_FOR_GPUS = Text(
    "Several libraries of the wheel have a Halide runtime of their own, for GPUs.",
    "Each has its own GPU allocations and compiled kernels: a pipeline of one fails on a buffer that a pipeline of "
    "another left on the GPU.",
    "Link all pipelines into one library, compiled with no_runtime, and the runtime once. For gpuforge, put them into "
    "one [[objects]] table.",
)
_FOR_CPUS = Text(
    "Several libraries of the wheel have a Halide runtime of their own.",
    "Each starts its own threads.",
    "None needed if they do not run at the same time. Otherwise link all pipelines into one library.",
    "info",
)
