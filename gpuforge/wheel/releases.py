"""Which releases the versions of a requirement allow, as `packaging` says; of final releases without loading it."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

Numbers = tuple[int, ...]
_NUMBER = r"[0-9]{1,9}"
_SUFFIX = rf"(?:(?:a|b|rc){_NUMBER})?(?:\.?post{_NUMBER})?(?:\.?dev{_NUMBER})?"
_CLAUSE = rf" ?([<>=!~]=|[<>]) ?({_NUMBER}(?:\.{_NUMBER})*)({_SUFFIX}|\.\*) ?"


class Clause(NamedTuple):
    """One comparison: `>=2.1`, `==2.1.*`, `<3.0rc1`."""

    operator: str  # "==*" and "!=*" of those that end so
    numbers: Numbers
    suffix: str  # "rc1"


@cache
def allows(versions: str, release: str) -> bool:
    """Say whether clauses such as ">=2.1,<3" allow a release; pre-releases too (PEP 440, "Version specifiers")."""
    clauses, numbers = _clauses(versions), _numbers(release)
    if clauses is None or numbers is None:
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415  as said

        return SpecifierSet(versions).contains(release, prereleases=True)
    return all(_compared(each.operator, numbers, each.numbers) for each in clauses)


def named(versions: str) -> frozenset[str]:
    """Return the releases that clauses name: 2.1 and 3 of ">=2.1,<3"."""
    texts = (clause.strip(" <>=!~").removesuffix(".*") for clause in versions.split(",") if clause.strip())
    return frozenset(text for text in texts if _numbers(text) is not None or _parses(text))


def below(versions: str) -> Iterator[str]:
    """Yield a release just below each upper bound, which stands for those that no table names: 1.18.999 for <1.19."""
    for each in _clauses(versions) or ():
        if each.operator == "<" and (bound := _stripped(each.numbers)):
            yield ".".join(map(str, (*bound[:-1], bound[-1] - 1, 999)))


def newest_first(releases: Iterable[str]) -> Iterator[str]:
    """Yield releases, the newest first."""
    given = sorted(releases)
    numbers = {text: _stripped(found) for text in given if (found := _numbers(text)) is not None}
    if len(numbers) == len(given):
        yield from sorted(given, key=lambda text: numbers[text], reverse=True)
        return
    from packaging.version import Version  # noqa: PLC0415

    yield from sorted(given, key=Version, reverse=True)


def clause(text: str) -> Clause | None:
    """Read a comparison as most are written; None for any other, and for what is none."""
    match = re.fullmatch(_CLAUSE, text)
    if match is None:
        return None
    operator, release, suffix = match.groups()
    numbers = tuple(map(int, release.split(".")))
    if suffix == ".*":
        return Clause(f"{operator}*", numbers, "") if operator in {"==", "!="} else None
    return Clause(operator, numbers, suffix) if operator != "~=" or len(numbers) > 1 else None


def _clauses(versions: str) -> list[Clause] | None:
    """Read comparisons with final releases; None where one is with another."""
    found = [clause(text) for text in versions.split(",")] if versions else []
    usual = [each for each in found if each and not each.suffix]
    return usual if len(usual) == len(found) else None


def _compared(operator: str, release: Numbers, wanted: Numbers) -> bool:
    one, other = _stripped(release), _stripped(wanted)
    match operator:
        case "==*":
            return _begins(release, wanted)
        case "!=*":
            return not _begins(release, wanted)
        case "~=":
            return one >= other and _begins(release, wanted[:-1])
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
        case _:
            return one >= other


def _begins(release: Numbers, wanted: Numbers) -> bool:
    return (*release, *[0] * len(wanted))[: len(wanted)] == wanted


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
