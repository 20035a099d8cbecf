"""The file name of a wheel: its parts, and what the audit takes from any file name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from gpuforge.errors import ActionError
from gpuforge.wheel import filename, metadata
from gpuforge.wheel.filename import WheelName

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
FILE_NAMES = st.builds("{}-{}-{}{}".format, NAMES, VERSIONS, TAGS, st.sampled_from([".whl", "", ".whl.whl"]))


@given(FILE_NAMES)
def test_a_file_name_is_read_as_packaging_reads_it(name: str) -> None:
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        assert filename.claims(name).tags == ()
        with pytest.raises(ActionError):
            WheelName.parse(name)
    else:
        assert filename.claims(name) == (project, str(version), tuple(sorted(tags, key=str)))
        assert str(WheelName.parse(name)) == name
        assert WheelName.parse(name).tags == filename.claims(name).tags


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch-2.8.0+cu126-cp311-cp311-any.whl", ("torch", "2.8.0+cu126", (Tag("cp311", "cp311", "any"),))),
        (
            "My_Pkg-1.10-py2.py3-none-any.whl",
            ("my-pkg", "1.10", (Tag("py2", "none", "any"), Tag("py3", "none", "any"))),
        ),
        ("My_Pkg-1.10.whl", ("my-pkg", "1.10", ())),
        ("demo.whl", ("", "", ())),
        (f"demo-1.0-{'9' * 300}.whl", ("demo", "1.0", ())),
    ],
)
def test_claims_of_file_names(name: str, expected: tuple[str, str, tuple[Tag, ...]]) -> None:
    assert filename.claims(name) == expected


@given(TAGS)
def test_tag_lines_are_expanded_as_packaging_expands_them(tags: str) -> None:
    try:
        expected: set[Tag | str] = {*parse_tag(tags)}
    except ValueError:
        expected = {tags}
    assert {*metadata._expanded(tags)} == expected
