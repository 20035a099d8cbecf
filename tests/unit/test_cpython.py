"""Versions of CPython in their spellings."""

from __future__ import annotations

import pytest

from gpuforge.cpython import CPython


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.11", (3, 11)),
        ("3.9.18", (3, 9)),
        ("3.14.0rc1", (3, 14)),
        ("3.12.x", (3, 12)),
        ("3.13.1+", (3, 13)),
    ],
)
def test_a_version_is_read_up_to_its_minor(version: str, expected: tuple[int, int]) -> None:
    assert CPython.parse(version) == CPython(*expected)


@pytest.mark.parametrize("version", ["", "3", "3.", "three", "3.1000", "²." + "1", "-3.1"])
def test_a_text_without_a_minor_is_no_version(version: str) -> None:
    with pytest.raises(ValueError, match="is not a version of CPython"):
        CPython.parse(version)


@pytest.mark.parametrize(
    ("tag", "version"),
    [("cp311", "3.11"), ("cp39", "3.9"), ("cp314t", "3.14t"), ("cp37m", "3.7")],
)
def test_a_tag_is_read(tag: str, version: str) -> None:
    assert str(CPython.of_tag(tag)) == version


@pytest.mark.parametrize("tag", ["py3", "abi3", "none", "cp27", "cp3", "cp3111", "pp310", "cp311d", ""])
def test_other_tags_are_of_no_single_cpython_3(tag: str) -> None:
    assert CPython.of_tag(tag) is None


def test_versions_are_ordered_by_number_and_spelled_as_tags() -> None:
    assert sorted(map(CPython.parse, ["3.13", "3.9", "3.10"])) == [(3, 9, ""), (3, 10, ""), (3, 13, "")]
    assert [CPython(3, 9).tag, CPython(3, 14, "t").tag] == ["cp39", "cp314t"]
