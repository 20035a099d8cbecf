"""Names, tags and requirements are read as `packaging` reads them, which is loaded for the unusual ones alone."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.specifiers import SpecifierSet
from packaging.tags import InvalidTag, parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from gpuforge.audit import declared
from gpuforge.wheel import names

NAMES = st.one_of(st.from_regex(r"\A[A-Za-z0-9._-]{0,12}\Z"), st.text(max_size=8))
VERSIONS = st.one_of(
    st.from_regex(
        r"\A[0-9]{1,3}(\.[0-9]{1,3}){0,3}((a|rc|\.post|dev|\.dev)[0-9]{1,2})?(\+[a-z0-9.]{1,8})?\Z"
    ),
    st.text("0123456789.+*!abrcposdev-_ ", max_size=10),
)
WORDS = st.one_of(
    st.sampled_from(["py3", "cp311", "none", "any", "abi3", "CP39", "3x", ""]), st.text(max_size=4)
)
TAGS = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(".".join), min_size=2, max_size=4).map("-".join)
CLAUSES = st.lists(
    st.tuples(st.sampled_from([">=", "<", "==", "!=", "~=", "===", ">", " <= ", ""]), VERSIONS), max_size=3
)
MARKERS = st.sampled_from(
    [
        "",
        "; extra == 'test'",
        ' ; extra=="a.b"',
        "; extra == 'x' and os_name == 'nt'",
        "; python_version<'3'",
        ";",
    ]
)


def _requirement(name: str, extras: str, clauses: list[tuple[str, str]], marker: str, parens: bool) -> str:
    joined = ",".join(operator + version for operator, version in clauses)
    return f"{name}{extras} {f'({joined})' if parens else joined}{marker}"


REQUIREMENTS = st.builds(
    _requirement, NAMES, st.sampled_from(["", "[x]", "[x, y]", "[]", "[x"]), CLAUSES, MARKERS, st.booleans()
)


@given(NAMES)
def test_names_are_compared_as_packaging_does(name: str) -> None:
    assert names.normalized(name) == canonicalize_name(name)


@given(TAGS)
def test_tags_are_those_of_packaging(tags: str) -> None:
    try:
        expected = tuple(sorted(map(str, parse_tag(tags))))
    except (InvalidTag, ValueError):
        expected = (tags,)
    assert names.expanded(tags) == expected


@given(st.builds("{}-{}-{}{}".format, NAMES, VERSIONS, TAGS, st.sampled_from([".whl", "", ".whl.whl"])))
def test_file_names_are_read_as_packaging_does(name: str) -> None:
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        assert names.of_file(name) is None
    else:
        assert names.of_file(name) == (project, str(version), tuple(sorted(map(str, tags))))


@given(REQUIREMENTS)
def test_a_requirement_that_is_read_says_what_packaging_reads(line: str) -> None:
    found = names.requirement(line)
    try:
        expected = Parsed(line)
    except InvalidRequirement:
        assert found is None
        return
    if found is None:
        return
    assert found[:2] == (canonicalize_name(expected.name), frozenset(expected.extras))
    assert SpecifierSet(found.versions) == expected.specifier
    if expected.marker is None:
        assert found.extra == ""
    else:
        assert expected.marker.evaluate({"extra": found.extra})
        assert not expected.marker.evaluate({"extra": "another"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("numpy", ("numpy", set(), "", "")),
        ("numpy (>=1.9.3)", ("numpy", set(), ">=1.9.3", "")),
        ("llvmlite<0.51,>=0.50.0dev0", ("llvmlite", set(), "<0.51,>=0.50.0dev0", "")),
        ("torch==2.8.*", ("torch", set(), "==2.8.*", "")),
        ('jax[cuda12,k8s]; extra == "cuda12"', ("jax", {"cuda12", "k8s"}, "", "cuda12")),
        ("Foo_Bar ~=1.4 ; extra == 'test'", ("foo-bar", set(), "~=1.4", "test")),
    ],
)
def test_usual_requirements_need_no_packaging(line: str, expected: tuple[str, set[str], str, str]) -> None:
    assert names.requirement(line) == expected


def test_all_that_the_tables_bring_is_read() -> None:
    tables = declared._tables()
    brought = {text for row in tables["carrier"] for text in row["brings"]}
    brought |= {text.format("cu13") for text in tables["toolkit-extras"]["packages"].values()}
    brought |= {text for texts in declared._requires().values() for text in texts}
    assert [text for text in brought if names.requirement(text) is None] == []


def test_a_usual_wheel_is_named_without_packaging(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "packaging"]:
        monkeypatch.setitem(sys.modules, module, None)
    assert names.of_file("torch-2.8.0+cu126-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl") == (
        "torch",
        "2.8.0+cu126",
        ("cp311-cp311-manylinux2014_x86_64", "cp311-cp311-manylinux_2_17_x86_64"),
    )
    assert names.of_file("My_Pkg-1.10-py2.py3-none-any.whl") == (
        "my-pkg",
        "1.10",
        ("py2-none-any", "py3-none-any"),
    )
