"""Releases are allowed and ordered as `packaging` does it, which is loaded for the unusual ones alone."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from gpuforge.audit import declared
from gpuforge.wheel import releases

FINAL = st.from_regex(r"\A(0|[1-9][0-9]?)(\.(0|[1-9][0-9]?)){0,3}\Z")
ANY = st.one_of(FINAL, FINAL, st.from_regex(r"\A[0-9](\.[0-9]){0,2}(a1|rc2|\.post3|\.dev0|dev1|\+cu12)\Z"))
CLAUSE = st.builds(
    "{}{}{}{}".format,
    st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~=", "==="]),
    st.sampled_from(["", " "]),
    ANY,
    st.sampled_from(["", "", "", ".*"]),
)


@given(st.lists(CLAUSE, max_size=3).map(",".join), ANY)
def test_what_is_allowed_is_what_packaging_allows(versions: str, release: str) -> None:
    try:
        expected = SpecifierSet(versions)
    except InvalidSpecifier:
        return
    assert releases.allows(versions, release) == expected.contains(release, prereleases=True)
    assert {Version(v) for v in releases.named(versions)} == {
        Version(s.version.removesuffix(".*")) for s in expected
    }


@given(st.sets(ANY))
def test_releases_are_ordered_as_packaging_does(given_releases: set[str]) -> None:
    found = list(map(Version, releases.newest_first(given_releases)))
    assert found == sorted(map(Version, given_releases), reverse=True)


def test_the_tables_need_no_packaging(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "packaging"]:
        monkeypatch.setitem(sys.modules, module, None)
    releases.allows.cache_clear()
    tables = declared._tables()
    for row in (*tables["carrier"], *tables["toolkit"]):
        assert list(releases.newest_first(row["known"]))
        assert all(releases.allows(row["versions"], version) for version in row["known"])


@pytest.mark.parametrize(
    ("versions", "below"),
    [("<1.19,>=1.15.0", ["1.18.999"]), ("<13", ["12.999"]), ("<2.0.0", ["1.999"]), (">=2,<=3", []), ("", [])],
)
def test_a_release_below_a_bound(versions: str, below: list[str]) -> None:
    assert list(releases.below(versions)) == below
    assert all(releases.allows(versions, release) for release in below)
