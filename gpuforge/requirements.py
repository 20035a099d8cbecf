"""Requirements as packaging reads them: of users and projects, of one release, and in files of constraints."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from packaging.requirements import InvalidRequirement, Requirement

from gpuforge import tree

_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^*,;=\s]+)")


class Release(NamedTuple):
    """The name of a project, as it is written where it was read, and a version of it."""

    project: str
    version: str

    @classmethod
    def of_pin(cls, text: str) -> Self:
        """Return the release that "name==version" requires; raises ValueError for any other requirement."""
        parts = _PIN.fullmatch(text)
        if parts is None:
            raise ValueError(text)
        Requirement(text)
        return cls(parts[1], parts[2])

    def __str__(self) -> str:
        return f"{self.project} {self.version}"


_DEEPEST = 100  # levels of parentheses; packaging before 26.4 has no limit and ends in a RecursionError


def parse_requirement(text: str) -> Requirement:
    """Return a requirement; raises InvalidRequirement, the same with every release of packaging."""
    depth = 0
    for parenthesis in re.findall("[()]", text):
        depth += 1 if parenthesis == "(" else -1
        if depth > _DEEPEST:
            raise InvalidRequirement("it is nested too deeply")
    try:
        return Requirement(text)
    except SyntaxError:  # of packaging 26.1, which reads strings as Python does
        raise InvalidRequirement("a quoted string in it is invalid") from None


_HASH = re.compile(r"\s--hash=(\w+:[0-9A-Fa-f]+)(?=\s|$)")
# pip fills in variables (`${HOME}`) in its files, and `===` takes any text for a version.
_ODD = (
    r"[^\t\x20-#%-~\xa0-\U0010ffff]|[\u2028-\u202e\u2066-\u2069\ud800-\udfff]"  # slow to compile, seldom used
)
_LARGEST = 1_000_000  # bytes of one file
_MOST = 10_000  # constraints in it
_LONGEST = 4000  # characters of one requirement
_COMMENT = re.compile(r"(^|\s)#.*")


class WrongLine(NamedTuple):
    """A line that is not a constraint: its number from 1, the reason, and what to do."""

    line: int
    what: str
    hint: str


class Constraint(NamedTuple):
    """One line: a requirement, and the digests of the files that may meet it ("sha256:…")."""

    requirement: Requirement
    hashes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([str(self.requirement), *(f"--hash={each}" for each in self.hashes)])


def constraints_text(folder: Path, name: str) -> str:
    """Return the text of a file of constraints below the manifest's folder.

    Raises OSError for a path that leads out of it, is not a file, or is too large.
    """
    with tree.reading(folder, name, follow=True) as handle:
        found = os.read(handle, _LARGEST + 1)
    if len(found) > _LARGEST:
        raise OSError(errno.EFBIG, f"it is larger than {_LARGEST} bytes", name)
    return found.decode(errors="replace")


def read_constraints(text: str) -> Iterator[Constraint | WrongLine]:
    """Yield the lines of a file of constraints; a backslash at its end joins a line with the next."""
    left = _MOST
    for number, line in _lines(text):
        found = _COMMENT.sub("", line).strip()
        hashes = tuple(_HASH.findall(found))
        found = _HASH.sub("", found).strip()
        if not found:
            continue
        if not left:
            yield WrongLine(number, f"more than {_MOST} constraints", "keep those that the build needs")
            return
        left -= 1
        try:
            requirement = requirement_by_name(found)
        except ValueError as error:
            yield WrongLine(number, str(error), _hint(found))
        else:
            yield Constraint(requirement, hashes)


def requirement_by_name(text: object) -> Requirement:
    """Return a requirement by name; raises ValueError for anything else."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        msg = f"{str(text)[:40]!r} is not a requirement: text of at most {_LONGEST} characters is expected"
        raise ValueError(msg)
    text = text.strip()
    if text.startswith("-"):
        msg = f"{text.split(maxsplit=1)[0]!r} is an option of pip"
        raise ValueError(msg)
    if re.search(_ODD, text):
        msg = f"{text!r} is not a requirement: it has a $, a control character or a line break"
        raise ValueError(msg)
    try:
        found = parse_requirement(text)
    except InvalidRequirement as error:
        msg = f"{text!r} is not a requirement: {str(error).splitlines()[0]}"
        raise ValueError(msg) from None
    if found.url is not None:
        msg = f"{text!r} is a direct reference"
        raise ValueError(msg)
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    joined, first = "", 1
    for number, line in enumerate(text.splitlines(), start=1):
        first = first if joined else number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        yield first, joined + line
        joined = ""
    if joined:
        yield first, joined


def _hint(found: str) -> str:
    if re.match(r"-[rc]|--(?:requirement|constraint)\b", found):
        return "copy the lines of that file here: only one file is read"
    if found.startswith("-"):
        return "configure indexes in pip's own settings (PIP_INDEX_URL, pip.conf)"
    return "write a line like cmake==3.31.6 for each requirement"
