"""Subjects of findings as lines of text, for every renderer."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from gpuforge.audit.findings import Finding, GpuTrace, PatternOf, Subject, Table
from gpuforge.audit.layout import Route
from gpuforge.audit.model import Compilers, WheelFacts
from gpuforge.diagnostics import shortened
from gpuforge.grouping import grouped

_EACH, _MOST = 4, 6  # subjects with a line each, names in a list; of more, some and the number of the rest
_NAMED = 3


def lines(finding: Finding) -> tuple[str, ...]:
    """Return one line for each subject."""
    return tuple(map(sentence, finding.subjects))


def sentence(subject: Subject, most: int | None = None) -> str:
    """Write a subject as a line: "libcudart.so.12 (nvidia-cuda-runtime-cu12), NEEDED by x/ext.so".

    With `most`, longer lists of names are cut to some and the number of the rest.
    """
    names = _shortened(subject.names, most)
    routes = subject.routes
    ways = f"by {routes[0]}" if len(routes) == 1 else " before ".join(map(str, routes))
    words = detail(subject)
    words = f"{words} {names}" if names else ", ".join(filter(None, (words, ways)))
    last = words
    if subject.library:
        last = _with(subject.library, subject.provider, "" if names else words)
    name = item(subject) if subject.item != subject.library else ""
    owner = f" of {subject.wheel}" if subject.wheel else ""
    file = f"{subject.file}{owner}" if subject.file else ""
    text = ": ".join(filter(None, (file, name, last)))
    loaders = (*subject.loaded_by, *(f"import {package}" for package in subject.imported_by))
    for verb, files in (("NEEDED", subject.needed_by), ("loaded", loaders)):
        if files:
            text += f", {verb} by {_shortened(files, most)}"
    if loaders:
        text += owner
    return f"{text}; {words}" if subject.library and names else text


def item(subject: Subject) -> str:
    """Write the part of a file that a subject is about."""
    match subject.item:
        case Route():
            return str(subject.item)
        case PatternOf(pattern, name):
            return f"{pattern!r} of the object {name!r}"
        case GpuTrace():  # the detail has it
            return ""
        case Compilers(kind, version, tools):
            of_sdk = f"{' and '.join(tools)} of the NVIDIA HPC SDK {version}"
            return f"asks for {of_sdk if tools else version if kind == 'option' else f'{kind} {version}'}"
        case text:
            return text


def bullets(finding: Finding) -> tuple[str, ...]:
    """Return one line for each cause: the libraries of one provider, the files with the same problem.

    If files share some elements of a list (symbol versions), each part that the same files have is a line.
    """
    groups = grouped((_cause(filled(subject)), subject) for subject in finding.subjects)
    return tuple(bullet for group in groups.values() for bullet in _bullets(group))


def _cause(subject: Subject) -> Subject:
    if subject.provider and subject.needed_by and not subject.file:
        return subject._replace(library="", needed_by=())
    return subject if subject.library else subject._replace(file="", names=())


def _bullets(group: Sequence[Subject]) -> Iterator[str]:
    first = group[0]
    words = detail(first)
    users = dict.fromkeys(file for subject in group for file in subject.needed_by)
    if first.library and (len(group) > 1 or (first.provider and len(users) > _NAMED)):
        libraries = _shortened([subject.library for subject in group], _EACH)
        needed_by = f"{len(users):,} files" if len(users) > 1 else next(iter(users))
        yield f"{_with(first.provider, item(first), words)}: {libraries}; needed by {needed_by}"
    elif len(group) > 1 and first.names:
        for names, files in _by_names(group):
            yield f"{words} {_shortened(names, _MOST)}: {_files(files)}"
    elif len(group) > _EACH or (len(group) > 1 and first.file and (first.item or words)):
        text = ": ".join(filter(None, (item(first), words)))
        yield f"{text}{': ' if text else ''}{_files([subject.file for subject in group])}"
    else:
        yield from (sentence(subject, _MOST) for subject in group)


def _by_names(group: Sequence[Subject]) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """Yield the names that the same files have, with these files."""
    files = grouped((name, subject.file) for subject in group for name in subject.names)
    alike = grouped((tuple(having), name) for name, having in files.items())
    yield from ((names, having) for having, names in alike.items())


def _files(files: Sequence[str]) -> str:
    if len(files) <= _EACH:
        return ", ".join(files)
    return f"{len(files):,} files, such as {', '.join(map(posixpath.basename, files[:_NAMED]))}"


def _with(name: str, *about: str) -> str:
    text = ", ".join(filter(None, about))
    return f"{name} ({text})" if text else name


def _shortened(names: Sequence[str], most: int | None) -> str:
    return shortened(names, len(names) if most is None or len(names) <= most else _NAMED)


_LONGEST = 48  # characters of a `short` text


def detail(subject: Subject) -> str:
    """Return a subject's detail in words."""
    names = {"provider": subject.provider, **dict(subject.facts)}
    return _Words().vformat(subject.detail, subject.parts, names)


def filled(subject: Subject) -> Subject:
    """Return a subject with the text of its detail instead of template and facts, to compare it with others."""
    return subject._replace(detail=detail(subject), facts=())


def _short(text: str) -> str:
    """Return a text, cut if it is long, in quotes if it has blanks."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f'"{short}"' if " " in short else short


def _drivers(table: Table) -> str:
    """Write the driver that each GPU needs, GPUs with the same driver together."""
    gpus = grouped((driver, capability) for capability, driver in table)
    return "; ".join(
        f"{', '.join(names)} with driver {driver or 'of that toolkit'} or newer"
        for driver, names in gpus.items()
    )


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "MiB": lambda size: f"{size >> 20}",
    "KiB": lambda size: f"{size >> 10:,}",
    "short": _short,
    # of lists
    "chain": " → ".join,
    "lines": lambda lines: repr(" → ".join(lines)),  # Requires-Dist lines, each brought by the one before it
    # of tables
    "sizes": lambda table: ", ".join(f"{name} {size / 2**20:,.0f} MiB" for name, size in table),
    "images": lambda table: ", ".join(f"{name} ({n} image{'s' if n > 1 else ''})" for name, n in table),
    "GPUs": lambda table: ", ".join(f"{capability} ({name})" for capability, name in table),
    "drivers": _drivers,
}


class _Words(Formatter):
    """Fills in values in one of Python's formats or of `_FORMATS`; the format of a list may limit its elements."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        if isinstance(value, tuple):
            return shortened(value, int(format_spec or len(value)))
        return format(value, format_spec)


_OF_OTHER_SYSTEMS = (".dll", ".pyd", ".dylib", ".exe", ".jnilib")
_OTHER_GPU_CODE = (".hsaco", ".co", ".spv", ".metallib", ".air")


def not_looked_at(facts: WheelFacts) -> Iterator[str]:
    """Yield the parts of a wheel that its report says nothing about, as phrases."""
    if not (facts.objects or facts.device or facts.pe):
        yield "anything but its metadata and its list of files: it has no binaries that gpuforge reads"
    if partly := [o.name for o in facts.linked if not o.all_searched]:
        yield f"some constants of {_names(partly)}, which may name libraries that they open"
    named = {name for o in facts.objects for name in o.mentions - o.mentioned_sonames}
    if composed := sorted(name for name in named if not name.endswith(".so")):
        yield f"libraries whose names are put together when they are opened ({_names(composed)})"
    read = {file.file for file in facts.pe}
    for endings, words in (
        (_OF_OTHER_SYSTEMS, "files for other systems"),
        (_OTHER_GPU_CODE, "GPU code that is not CUDA's"),
    ):
        if files := [n.rpartition("/")[2] for n in facts.members if n.endswith(endings) and n not in read]:
            yield f"{words} ({_names(files)})"


def _names(names: Sequence[str]) -> str:
    return shortened(list(dict.fromkeys(names)), 2)
