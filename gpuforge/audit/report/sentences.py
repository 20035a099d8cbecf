"""Subjects of findings as lines of text, for every renderer."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from gpuforge.audit.findings import Finding, GpuTrace, PatternOf, Subject
from gpuforge.audit.model import Compilers
from gpuforge.audit.report import detail
from gpuforge.audit.route import Route

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
    ways = _routes(subject.routes)
    words = detail.text(subject)
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


def _routes(routes: Sequence[Route]) -> str:
    return f"by {routes[0]}" if len(routes) == 1 else " before ".join(map(str, routes))


def bullets(finding: Finding) -> tuple[str, ...]:
    """Return one line for each cause: the libraries of one provider, the files with the same problem.

    If files share some elements of a list (symbol versions), each part that the same files have is a line.
    """
    groups: dict[Subject, list[Subject]] = {}
    for subject in finding.subjects:
        groups.setdefault(_cause(detail.filled(subject)), []).append(subject)
    return tuple(bullet for group in groups.values() for bullet in _bullets(group))


def _cause(subject: Subject) -> Subject:
    if subject.provider and subject.needed_by and not subject.file:
        return subject._replace(library="", needed_by=())
    return subject if subject.library else subject._replace(file="", names=())


def _bullets(group: Sequence[Subject]) -> Iterator[str]:
    first = group[0]
    words = detail.text(first)
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
    files: dict[str, list[str]] = {}
    for subject in group:
        for name in subject.names:
            files.setdefault(name, []).append(subject.file)
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, having in files.items():
        alike.setdefault(tuple(having), []).append(name)
    yield from ((names, having) for having, names in alike.items())


def _files(files: Sequence[str]) -> str:
    if len(files) <= _EACH:
        return ", ".join(files)
    return f"{len(files):,} files, such as {', '.join(map(posixpath.basename, files[:_NAMED]))}"


def _with(name: str, *about: str) -> str:
    text = ", ".join(filter(None, about))
    return f"{name} ({text})" if text else name


def _shortened(names: Sequence[str], most: int | None) -> str:
    return detail.shorten(names, len(names) if most is None or len(names) <= most else _NAMED)
