"""Archives that were damaged, or made to confuse their readers: one error, and nothing outside of them is touched."""

import contextlib
import io
import tempfile
import zipfile
from pathlib import Path

import pytest
from audit_samples import elf, wheel
from hypothesis import example, given
from hypothesis import strategies as st

from gpuforge.errors import ActionError, MalformedError, TooLargeError
from gpuforge.wheel import unpacked
from gpuforge.wheel.archive import Archive, Member
from gpuforge.wheel.checks import archive, kind


def sample() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return wheel(Path(folder), {"demo/a.so": elf(), "demo/empty": b""}).read_bytes()


SOUND = sample()
DIRECTORY = SOUND.index(b"PK\x01\x02")
CHANGES = st.lists(
    st.tuples(st.integers(DIRECTORY, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=6
)


def changed(changes: list[tuple[int, int]]) -> bytes:
    data = bytearray(SOUND)
    for place, value in changes:
        data[place] = value
    return bytes(data)


FILES = st.one_of(
    CHANGES.map(changed),
    st.binary(max_size=100),
    st.integers(0, len(SOUND)).map(lambda count: SOUND[:count]),
)


@given(FILES)
def test_any_file_is_read_or_malformed(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.whl"
        path.write_bytes(data)
        with contextlib.suppress(MalformedError), Archive(path) as archive:
            for member in archive.members:
                read_or_malformed(archive, member)


def read_or_malformed(archive: Archive, member: Member) -> None:
    for read in (archive.data, lambda m: b"".join(archive.chunks(m)), lambda m: archive.head(m, 4)):
        with contextlib.suppress(MalformedError, TooLargeError):
            read(member)


@example([(721, 12)])  # what zlib wrote, said to be bzip2
@example([(721, 14)])  # or LZMA
@given(CHANGES)
def test_any_file_is_unpacked_or_refused(changes):
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "a.whl", Path(folder) / "out"
        path.write_bytes(changed(changes))
        with contextlib.suppress(ActionError):
            unpacked.unpack(path, target)
        assert {entry.name for entry in Path(folder).iterdir()} <= {"a.whl", "out"}


NAMES = st.text(st.sampled_from("ab/.\\"), min_size=1, max_size=8)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(st.lists(NAMES, min_size=1, max_size=4))
def test_names_that_are_not_refused_stay_in_the_folder(names):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as bundle:
        for name in names:
            bundle.writestr(zipfile.ZipInfo(name), b"")
        refused = [r for r in archive.check_names(bundle.infolist()) if kind(r.kind).unpack]
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "a.whl", Path(folder) / "out"
        path.write_bytes(written.getvalue())
        if refused:
            with pytest.raises(ActionError, match="holds a member that no wheel may have"):
                unpacked.unpack(path, target)
            assert list(target.iterdir()) == []
        else:
            unpacked.unpack(path, target)
            files = {file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file()}
            assert files == {str(Path(name)) for name in names if not name.endswith("/")}
