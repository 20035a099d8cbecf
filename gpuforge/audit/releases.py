"""Which releases the versions of a requirement allow, as `packaging` says; of final releases without loading it."""

import re
from collections.abc import Iterable, Iterator
from functools import cache

Numbers = tuple[int, ...]
_CLAUSE = r"\s*([<>=!~]=|[<>])\s*(\d{1,9}(?:\.\d{1,9})*)(\.\*)?\s*"


@cache
def allows(versions: str, release: str) -> bool:
    """Say whether clauses such as ">=2.1,<3" allow a release; pre-releases too (PEP 440, "Version specifiers")."""
    clauses, numbers = _clauses(versions), _numbers(release)
    if clauses is None or numbers is None:
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415  as said

        return SpecifierSet(versions).contains(release, prereleases=True)
    return all(_compared(operator, numbers, wanted) for operator, wanted in clauses)


def named(versions: str) -> frozenset[str]:
    """Return the releases that clauses name: 2.1 and 3 of ">=2.1,<3"."""
    texts = (clause.strip(" <>=!~").removesuffix(".*") for clause in versions.split(",") if clause.strip())
    return frozenset(text for text in texts if _numbers(text) is not None or _parses(text))


def newest_first(releases: Iterable[str]) -> Iterator[str]:
    """Yield releases, the newest first."""
    given = sorted(releases)
    numbers = {text: _stripped(found) for text in given if (found := _numbers(text)) is not None}
    if len(numbers) == len(given):
        yield from sorted(given, key=lambda text: numbers[text], reverse=True)
        return
    from packaging.version import Version  # noqa: PLC0415

    yield from sorted(given, key=Version, reverse=True)


def _clauses(versions: str) -> list[tuple[str, Numbers]] | None:
    """Return operators and numbers, "==*" for "==2.1.*"; None where more than packaging's final releases is meant."""
    found = []
    for text in versions.split(",") if versions.strip() else ():
        match = re.fullmatch(_CLAUSE, text, re.ASCII)
        if match is None:
            return None
        operator, numbers = match[1], tuple(map(int, match[2].split(".")))
        if operator == "~=":
            found.append(("==*", numbers[:-1]))
        if (match[3] and operator not in ("==", "!=")) or (operator == "~=" and len(numbers) == 1):
            return None
        found.append((operator + "*" if match[3] else operator, numbers))
    return found


def _compared(operator: str, release: Numbers, wanted: Numbers) -> bool:
    if operator.endswith("*"):
        begins = (*release, *[0] * len(wanted))[: len(wanted)] == wanted
        return begins is (operator == "==*")
    one, other = _stripped(release), _stripped(wanted)
    match operator:
        case "==":
            return one == other
        case "!=":
            return one != other
        case "<":
            return one < other
        case ">":
            return one > other
        case "<=":
            return one <= other
        case _:  # >= and ~=
            return one >= other


def _stripped(numbers: Numbers) -> Numbers:
    """Leave out the zeros at the end: 2.0 is 2."""
    count = len(numbers)
    while count and not numbers[count - 1]:
        count -= 1
    return numbers[:count]


def _numbers(release: str) -> Numbers | None:
    """Return the numbers of a final release, None of any other version."""
    parts = release.split(".")
    usual = release.isascii() and all(part.isdecimal() and len(part) < 10 for part in parts)
    return tuple(map(int, parts)) if usual else None


def _parses(text: str) -> bool:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
