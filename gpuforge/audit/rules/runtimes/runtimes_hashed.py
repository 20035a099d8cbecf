"""GF101: a toolchain's runtime under a hashed name in a wheel that users link against."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuforge.audit.embedded import Recipe
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.leftover import left_over_folder
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import Compilers, WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.hpc_sdk import sdk_version
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.libraries import CompilerRuntimes

_CUDART = CompilerRuntimes("cudart", "CUDA runtime")
_ARTEFACTS = (
    r"(?P<archives>.*\.a)|(?P<objects>.*\.o)|(?P<makefiles>(?i:.*makefile(\.\w+)?|.*\.mk))"
    r"|(?P<configs>.*(-config|Config|Targets|-targets)\.cmake|.*\.pc)"
)
_LIKE_ARTEFACTS = (".a", ".o", ".mk", ".cmake", ".pc")  # a faster test than the pattern

# Archives of the CUDA toolkit itself are inputs of nvcc and nvlink, not outputs of a host compiler.
_TOOLKIT = r"libcudadevrt\.a|libcudart_static\.a|lib(cu|nv|npp)\w*_static(_nocallback)?\.a"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find wheels that have hashed runtimes and files that users link against."""
    for wheel in graph.wheels:
        yield from _sources(graph, wheel)
        artefacts = link_artefacts(wheel)
        if not artefacts:
            continue
        grafted = [(o, family) for o in wheel.objects if (family := _grafted(o))]
        # the runtimes of OpenMP do less harm, and a single archive may be left over from the build
        for openmp in (False, True):
            chosen = [(o, family) for o, family in grafted if _is_openmp_alone(family) == openmp]
            if chosen:
                yield RULE.finding(
                    wheel.name,
                    severity=("warning" if _for_users(wheel) else "info") if openmp else "error",
                    files=tuple(o.file for o, _ in chosen),
                    subjects=(
                        *(_subject(graph, o, family) for o, family in chosen),
                        *(
                            Subject(file=file, item=compiler, kind=compiler.kind)
                            for compiler, file in _asked_of_users(wheel).items()
                            if any(family.one_release for _, family in chosen)
                        ),
                    ),
                    what="Toolchain runtimes are in the wheel under hashed names, and users link against this wheel "
                    f"({artefacts}).",
                    why="A user's link brings the same runtimes under their plain names, so two copies run in one "
                    "process.",
                    fix="Use only g++ to compile the libraries that users link against, or leave these runtimes out "
                    "of the wheel (auditwheel repair --exclude NAME) and document which toolchain users need.",
                )


RULE = Rule(
    code="GF101",
    severity="error",
    title="a toolchain runtime is grafted under a hashed name, and a user's link brings the plain one",
    check=check,
)


def _sources(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find hashed runtimes that libraries compiled from the wheel's sources load by their plain names."""
    grafted = [(o, family) for o in wheel.objects if (family := _grafted(o))] if wheel.sources else []
    met = [(o, family, brought) for o, family in grafted if (brought := _brought(wheel, family))]
    if met:
        yield RULE.finding(
            wheel.name,
            files=tuple(o.file for o, _, _ in met),
            subjects=tuple(_beside_sources(graph, o, family, brought) for o, family, brought in met),
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


def _brought(wheel: WheelFacts, family: CompilerRuntimes) -> list[tuple[str, str, str]]:
    """Return the runtimes of a family that user-compiled libraries need, each with its toolchain and object."""
    return [
        (name, toolchain.name, sources.name)
        for sources in wheel.sources
        if isinstance(sources.recipe, Recipe)
        for toolchain in sources.recipe.toolchains
        for name in toolchain.runtimes
        if _family(name) == family
    ]


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


def _for_users(wheel: WheelFacts) -> bool:
    """Return whether a wheel has files from which a user's compiler learns how to link with it."""
    return bool(_artefacts(wheel).keys() & {"makefiles", "configs"})


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


def _is_openmp_alone(family: CompilerRuntimes) -> bool:
    return bool(family.openmp) and not family.one_release


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
