"""Names, tags and requirements as PyPA's `packaging` reads them; it is loaded for the unusual ones alone.

Loading it takes a quarter of a small audit: it also brings what finds out about the running system.
"""

import re
from functools import cache
from itertools import product
from typing import NamedTuple

_RELEASE = r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))*"
_VERSION = (
    rf"{_RELEASE}(?:(?:a|b|rc)(?:0|[1-9][0-9]*))?(?:\.post(?:0|[1-9][0-9]*))?(?:\.dev(?:0|[1-9][0-9]*))?"
)
_LOCAL = r"(?:\+[a-z][a-z0-9]*(?:\.(?:[a-z][a-z0-9]*|0|[1-9][0-9]*))*)?"
_TAGS = r"([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)-([a-z0-9_]+(?:\.[a-z0-9_]+)*)-([a-z0-9_]+(?:\.[a-z0-9_]+)*)"
_FILE = rf"([A-Za-z0-9.]+(?:_[A-Za-z0-9.]+)*)-({_VERSION}{_LOCAL})-{_TAGS}\.whl"
_NAME = r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_CLAUSE = rf"(?:(?:>=|<=|>|<|==|!=) ?{_VERSION}|(?:==|!=) ?{_RELEASE}\.\*|~= ?{_RELEASE}\.(?:0|[1-9][0-9]*))"
_CLAUSES = rf"{_CLAUSE}(?: ?, ?{_CLAUSE})*"
_EXTRA = r"""extra ?== ?(?:"([A-Za-z0-9._-]+)"|'([A-Za-z0-9._-]+)')"""
_REQUIREMENT = rf"{_NAME} ?(?:{_CLAUSES}|\({_CLAUSES}\))?(?: ?; ?{_EXTRA})?"


class Plain(NamedTuple):
    """A requirement of any versions of a package, without extras of its own, perhaps with one of the wheel."""

    name: str
    extra: str = ""


@cache
def normalized(name: str) -> str:
    """Return a project's name as names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def expanded(tags: str) -> tuple[str, ...]:
    """Return the tags of a compressed set such as "py2.py3-none-any", sorted; of what is none, itself (PEP 425)."""
    if match := re.fullmatch(_TAGS, tags):
        return tuple(
            sorted("-".join(tag) for tag in product(*(set(part.split(".")) for part in match.groups())))
        )
    from packaging.tags import InvalidTag, parse_tag  # noqa: PLC0415  as said

    try:
        return tuple(sorted(map(str, parse_tag(tags))))
    except (InvalidTag, ValueError):
        return (tags,)


def of_file(name: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return project, version and tags that a wheel's file name promises; None if it is no wheel's (PEP 427)."""
    if match := re.fullmatch(_FILE, name):
        return normalized(match[1]), match[2], expanded("-".join(match.group(3, 4, 5)))
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # noqa: PLC0415  as said
    from packaging.version import InvalidVersion  # noqa: PLC0415

    try:
        project, version, _, tags = parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion):
        return None
    return project, str(version), tuple(sorted(map(str, tags)))


def plain(requirement: str) -> Plain | None:
    """Read a requirement such as "numpy >=1.22,<3" or "pytest; extra == 'test'"; None for any other (PEP 508)."""
    match = re.fullmatch(_REQUIREMENT, requirement)
    return Plain(normalized(match[1]), match[2] or match[3] or "") if match else None
