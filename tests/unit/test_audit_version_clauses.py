"""The releases that version clauses allow, name and end below."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from gpuforge.audit import version_clauses

FINAL = st.from_regex(r"\A(0|[1-9][0-9]?)(\.(0|[1-9][0-9]?)){0,3}\Z")
ANY = st.one_of(FINAL, FINAL, st.from_regex(r"\A[0-9](\.[0-9]){0,2}(a1|rc2|\.post3|\.dev0|dev1|\+cu12)\Z"))
CLAUSE = st.builds(
    "{}{}{}{}".format,
    st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~=", "==="]),
    st.sampled_from(["", " "]),
    ANY,
    st.sampled_from(["", "", "", ".*"]),
)


def test_arbitrary_equality_compares_the_text_as_it_is_written() -> None:
    assert version_clauses.allows("===0dev1", "0dev1")
    assert not version_clauses.allows("===0dev1", "0.dev1")


@pytest.mark.thorough
@given(st.lists(CLAUSE, max_size=3).map(",".join), ANY)
def test_releases_are_allowed_as_packaging_allows_them(versions: str, release: str) -> None:
    try:
        expected = SpecifierSet(versions)
    except InvalidSpecifier:
        return
    assert version_clauses.allows(versions, release) == expected.contains(release, prereleases=True)
    assert {Version(v) for v in version_clauses.named(versions)} == {
        Version(s.version.removesuffix(".*")) for s in expected
    }


@given(st.sets(ANY))
def test_releases_are_ordered_as_packaging_does(given_releases: set[str]) -> None:
    found = list(map(Version, version_clauses.newest_first(given_releases)))
    assert found == sorted(map(Version, given_releases), reverse=True)


@pytest.mark.parametrize(
    ("versions", "below"),
    [("<1.19,>=1.15.0", ["1.18.999"]), ("<13", ["12.999"]), ("<2.0.0", ["1.999"]), (">=2,<=3", []), ("", [])],
)
def test_release_below_an_upper_bound(versions: str, below: list[str]) -> None:
    assert list(version_clauses.below(versions)) == below
    assert all(version_clauses.allows(versions, release) for release in below)


@pytest.mark.parametrize("release", ["", "1.x", "9" * 30, "1.0+cu12"])
def test_any_text_may_be_asked_for(release: str) -> None:
    assert version_clauses.allows(">=1,<2", release) is (release == "1.0+cu12")
