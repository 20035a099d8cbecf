"""Archives of objects: names by three conventions, thin archives, and damaged ones."""

from __future__ import annotations

import pytest
from object_samples import archive

from gpuforge.binary import ar
from gpuforge.errors import MalformedError

MEMBERS = {"a.o": b"one", "a_name_that_is_longer_than_sixteen.o": b"four", "dir/b.o": b""}


@pytest.mark.parametrize("style", ["gnu", "bsd"])
def test_members_have_their_names_and_bytes(style: str) -> None:
    assert {m.name: m.data for m in ar.members(archive(MEMBERS, style=style))} == MEMBERS


def test_members_of_a_thin_archive_have_no_bytes() -> None:
    assert [tuple(m) for m in ar.members(archive(MEMBERS, style="thin"))] == [(n, None) for n in MEMBERS]


def test_short_names_are_in_the_header() -> None:
    data = b"!<arch>\n" + b"x.o/".ljust(48) + b"2".ljust(10) + b"`\nhi"
    assert list(ar.members(data)) == [ar.ArMember("x.o", b"hi")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"!<arch>", "its first bytes are not those of an archive"),
        (b"!<arch>\nrubbish", "there is no archive member at byte 8"),
        (archive({"a.o": b"four"})[:-1], "the archive ends in the middle of the member at byte"),
        (archive(MEMBERS) + b"more", "there is no archive member at byte"),
        (archive(MEMBERS).replace(b"/0  ", b"/999"), "the archive has no name at byte 999"),
        (archive(MEMBERS, style="bsd").replace(b"#1/3 ", b"#1/99"), "an archive member's name has 99 bytes"),
        (archive({"a.o": b"x"}).replace(b"1         `", b"-1        `"), "has no size"),
        (archive({"a.o": b"x"}, style="thin").replace(b"/0   ", b"/0:64"), "names members of other archives"),
    ],
)
def test_the_error_names_the_damage(data: bytes, message: str) -> None:
    with pytest.raises(MalformedError, match=message):
        list(ar.members(data))
