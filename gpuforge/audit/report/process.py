"""The libraries of one process, as lines of text and as plain data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuforge.audit.judge import Report, titles
from gpuforge.audit.rules.processes import How
from gpuforge.audit.together import LibraryUse, ProcessLibrary, Together
from gpuforge.diagnostics import shortened
from gpuforge.grouping import grouped

_VERBS: dict[How, str] = {"linked": "linked by", "static": "linked statically into", "opened": "opened by"}


class ProcessSection(NamedTuple):
    """A kind of libraries: their number, and a line for each."""

    title: str
    summary: str
    lines: tuple[str, ...]


def data(shared: Together) -> dict[str, Any]:
    """Return the libraries of one process as JSON-compatible data."""
    return {
        "driver": shared.driver,
        "libraries": [
            {**library._asdict(), "uses": [use._asdict() for use in library.uses]}
            for library in shared.libraries
        ],
    }


def parts(report: Report, shared: Together, *, every: bool) -> Iterator[ProcessSection]:
    """Yield the CUDA and OpenMP runtimes, the drivers and the other libraries, the latter one by one with `every`."""
    names = titles([wheel.facts for wheel in report.wheels])
    for kind in ("CUDA runtime", "OpenMP runtime", "driver"):
        libraries = shared.of_kind(kind)
        yield ProcessSection(f"{kind}s", _summary(shared, libraries), tuple(_lines(libraries, names)))
    others = shared.of_kind("library")
    own = [library for library in others if library.origin != "machine"]
    summary = f"{len(own):,} of packages, {len(others) - len(own):,} of the machine"
    shown = others if every else ()
    yield ProcessSection(
        "other shared libraries",
        summary if every or not others else f"{summary} (--verbose lists them)",
        tuple(_lines(shown, names)),
    )


def _summary(shared: Together, libraries: Sequence[ProcessLibrary]) -> str:
    if not libraries:
        return "none"
    needs = f"; together they need NVIDIA driver {shared.driver} or newer" if shared.driver else ""
    return f"{len(libraries)}{needs if libraries[0].kind == 'CUDA runtime' else ''}"


def _lines(libraries: Iterable[ProcessLibrary], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each library; those that are linked into files of one wheel share one."""
    inside: dict[tuple[str, str], list[LibraryUse]] = {}
    for library in libraries:
        if any(use.how == "static" for use in library.uses):
            inside.setdefault((library.name, library.provider), []).extend(library.uses)
        else:
            yield f"{library.name} {_source(library, names)}, {_uses(library.uses, names)}"
    for (name, _), uses in inside.items():
        yield f"{name}, {_uses(dict.fromkeys(uses), names)}"


def _source(library: ProcessLibrary, names: Mapping[str, str]) -> str:
    if library.origin == "wheel":
        return f"of {names[library.provider]}"
    return (
        f"of {library.provider}, which is not among them" if library.origin == "package" else "of the machine"
    )


def _uses(uses: Iterable[LibraryUse], names: Mapping[str, str]) -> str:
    by_how = grouped((use.how, use) for use in uses)
    return "; ".join(f"{_VERBS[how]} {_users(some, names)}" for how, some in by_how.items())


def _users(uses: Sequence[LibraryUse], names: Mapping[str, str]) -> str:
    wheels = grouped((use.wheel, use.file) for use in uses)
    shown = [
        f"{names[wheel]} ({files[0] if len(files) == 1 else f'{len(files):,} files'})"
        for wheel, files in wheels.items()
    ]
    return shortened(shown)
