"""Subjects of findings as lines of text, for every renderer."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from gpuforge.audit.findings import Finding, Subject

_EACH, _MOST = 4, 6  # subjects with a line each, names in a list; of more, a few and their number
_NAMED = 3


def lines(finding: Finding) -> tuple[str, ...]:
    """Return one line for each subject."""
    return tuple(map(sentence, finding.subjects))


def sentence(subject: Subject, most: int | None = None) -> str:
    """Write a subject as a line: "libcudart.so.12 (nvidia-cuda-runtime-cu12), NEEDED by x/ext.so".

    With `most`, longer lists of names are cut to a few and how many more.
    """
    names = _some(subject.names, most)
    detail = f"{subject.detail} {names}" if names else subject.detail
    last = detail
    if subject.library:
        last = _with(subject.library, subject.provider, "" if names else detail)
    item = subject.item if subject.item != subject.library else ""
    text = ": ".join(filter(None, (subject.file, item, last)))
    for verb, files in (("NEEDED", subject.needed_by), ("loaded", subject.loaded_by)):
        if files:
            text += f", {verb} by {_some(files, most)}"
    return f"{text}; {detail}" if subject.library and names else text


def bullets(finding: Finding) -> tuple[str, ...]:
    """Return one line for each cause: the libraries of one provider, the files about which the same is known."""
    groups: dict[Subject, list[Subject]] = {}
    for subject in finding.subjects:
        groups.setdefault(_cause(subject), []).append(subject)
    return tuple(bullet for group in groups.values() for bullet in _bullets(group))


def _cause(subject: Subject) -> Subject:
    if subject.provider and subject.needed_by and not subject.file:
        return subject._replace(library="", needed_by=())
    return subject if subject.library else subject._replace(file="")


def _bullets(group: Sequence[Subject]) -> Iterator[str]:
    first = group[0]
    if len(group) > 1 and first.library:
        files = dict.fromkeys(file for subject in group for file in subject.needed_by)
        users = f"{len(files):,} files" if len(files) > 1 else next(iter(files))
        libraries = _some([subject.library for subject in group], _EACH)
        yield f"{_with(first.provider, first.item, first.detail)}: {libraries}; needed by {users}"
    elif len(group) > _EACH:
        text = ": ".join(filter(None, (first.item, first.detail)))
        names = ", ".join(posixpath.basename(subject.file) for subject in group[:_NAMED])
        yield f"{text}{': ' if text else ''}{len(group):,} files, such as {names}"
    else:
        yield from (sentence(subject, _MOST) for subject in group)


def _with(name: str, *about: str) -> str:
    text = ", ".join(filter(None, about))
    return f"{name} ({text})" if text else name


def _some(names: Sequence[str], most: int | None) -> str:
    if most is None or len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"
