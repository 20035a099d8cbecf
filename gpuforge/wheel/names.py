"""Names, tags and requirements as PyPA's `packaging` reads them; it is loaded for the unusual ones alone.

Loading it takes a quarter of a small audit: it also brings what finds out about the running system.
"""

import re
from functools import cache
from itertools import product
from typing import NamedTuple

from gpuforge.wheel import releases

_LONGEST_NAME = 255  # characters; no file system has longer ones
_NAME = r"(?>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_HANGS_ON = rf"extra ?== ?(?:\"({_NAME})\"|'({_NAME})')"
_REQUIREMENT = rf"({_NAME}) ?(?:\[ ?({_NAME}(?: ?, ?{_NAME})*) ?\])? ?([^;\[]*?) ?(?:; ?{_HANGS_ON})?"


class Requirement(NamedTuple):
    """A package that is wanted: `jax[cuda12] >=0.5; extra == "gpu"`."""

    name: str  # normalized
    extras: frozenset[str] = frozenset()  # "cuda12"
    versions: str = ""  # clauses: ">=0.5"
    extra: str = ""  # of the wheel, without which it is not: "gpu"


@cache
def normalized(name: str) -> str:
    """Return a project's name as names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def expanded(tags: str) -> tuple[str, ...]:
    """Return the tags of a compressed set such as "py2.py3-none-any", sorted; of what is none, itself (PEP 425)."""
    if found := _plain_tags(tags):
        return found
    from packaging.tags import InvalidTag, parse_tag  # noqa: PLC0415  as said

    try:
        return tuple(sorted(map(str, parse_tag(tags))))
    except (InvalidTag, ValueError):
        return (tags,)


def of_file(name: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return project, version and tags that a wheel's file name promises; None if it is no wheel's (PEP 427)."""
    if len(name) > _LONGEST_NAME:
        return None
    project, version, tags = (*name.removesuffix(".whl").split("-", 2), "", "")[:3]
    found = _plain_tags(tags)
    if found and name.endswith(".whl") and _is_word(project) and "__" not in project and _is_release(version):
        return normalized(project), version, found
    from packaging.utils import parse_wheel_filename  # noqa: PLC0415  as said

    try:
        promised = parse_wheel_filename(name)
    except ValueError:  # its own, and that of a number with thousands of digits
        return None
    return promised[0], str(promised[1]), tuple(sorted(map(str, promised[3])))


@cache  # asked by who resolves it, by who judges it, and by who prepares for both
def requirement(line: str) -> Requirement | None:
    """Read a requirement that hangs on an extra or on nothing; None for one with another marker, or none (PEP 508)."""
    match = re.fullmatch(_REQUIREMENT, line)
    if match is None:
        return None
    versions = match[3][1:-1] if match[3][:1] == "(" and match[3][-1:] == ")" else match[3]
    if match[3] and not all(map(releases.clause, versions.split(","))):
        return None
    extras = frozenset(extra.strip() for extra in match[2].split(",")) if match[2] else frozenset()
    return Requirement(normalized(match[1]), extras, versions, match[4] or match[5] or "")


def _plain_tags(tags: str) -> tuple[str, ...]:
    """Return the tags of a set in the usual characters; of any other nothing."""
    parts = [set(part.split(".")) for part in tags.split("-")]
    if (
        len(parts) == 3
        and all(_is_word(word) and word == word.lower() for words in parts for word in words)
        and all(word.isidentifier() for word in parts[0])
    ):
        return tuple(sorted(map("-".join, product(*parts))))
    return ()


def _is_word(text: str) -> bool:
    return text.isascii() and text.replace("_", "").replace(".", "").isalnum()


def _is_release(version: str) -> bool:
    """Say whether a version is written as `packaging` would write it: "1.10", "2.1.0+cu124"."""
    release, plus, local = version.partition("+")
    numbers = release.split(".")
    usual = not plus or (local.isalnum() and local[0].isalpha() and local.islower())
    return version.isascii() and usual and all(n.isdecimal() and (n == "0" or n[0] != "0") for n in numbers)
