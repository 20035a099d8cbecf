"""The releases of a package that the version clauses of a requirement allow, such as ">=2.1,<3"."""

from collections.abc import Iterable, Iterator
from functools import cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


@cache
def allows(clauses: str, release: str) -> bool:
    """Return whether the clauses allow a release; pre-releases count, too."""
    return _version(release) is not None and _parsed(clauses).contains(release, prereleases=True)


def pins(clauses: str, release: str) -> bool:
    """Return whether the clauses allow only this release."""
    exact = any(c.operator in ("==", "===") and not c.version.endswith(".*") for c in _parsed(clauses))
    return exact and allows(clauses, release)


def named(clauses: str) -> frozenset[str]:
    """Return the releases that the clauses name: 2.1 and 3 of ">=2.1,<3"."""
    texts = (clause.version.removesuffix(".*") for clause in _parsed(clauses))
    return frozenset(text for text in texts if _version(text))


def below(clauses: str) -> Iterator[str]:
    """Yield a release just below each upper bound, for releases that no table lists: 1.18.999 for <1.19."""
    for clause in _parsed(clauses):
        if clause.operator == "<" and (bound := _bound(clause.version)):
            yield ".".join(map(str, (*bound[:-1], bound[-1] - 1, 999)))


def newest_first(releases: Iterable[str]) -> Iterator[str]:
    """Yield releases, the newest first."""
    yield from sorted(sorted(releases), key=Version, reverse=True)


def newest_allowed(releases: Iterable[str], clauses: str) -> str | None:
    """Return the newest release that clauses allow, of these and of those that they name; None without any."""
    listed = (*newest_first({*releases, *named(clauses)}), *below(clauses))
    return next((release for release in listed if allows(clauses, release)), None)


def _bound(text: str) -> tuple[int, ...]:
    """Return the numbers of a final release without the zeros at its end; nothing for 0 and for a pre-release."""
    numbers = list(Version(text).release) if text.replace(".", "").isdecimal() else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


@cache
def _parsed(clauses: str) -> SpecifierSet:
    return SpecifierSet(clauses)
