"""A wheel with a member of more than four gigabytes, for real: it is sparse, so that it takes no disk."""

import zipfile

import pytest

from gpuforge.binary.window import Budget
from gpuforge.wheel import unpacked
from gpuforge.wheel.archive import Archive

SIZE = (1 << 32) + 5


@pytest.mark.slow
def test_a_member_of_more_than_four_gigabytes(tmp_path):
    info = tmp_path / "tree" / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    with (tmp_path / "tree" / "large.bin").open("wb") as stream:
        stream.seek(SIZE - 5)
        stream.write(b"end.\n")
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    unpacked.write(tmp_path / "tree", wheel)
    assert wheel.stat().st_size < 10_000_000
    with zipfile.ZipFile(wheel) as bundle:
        member = bundle.getinfo("large.bin")
        assert (member.file_size, member.extract_version) == (
            SIZE,
            45,
        )  # the version of the format with ZIP64
        assert f",{SIZE}\n" in bundle.read("demo-1.0.dist-info/RECORD").decode()
    with Archive(wheel) as opened:
        opened.budget = Budget(SIZE)  # as if it were not packed: four gigabytes of zeros are a bomb otherwise
        (large,) = (m for m in opened.members if m.name == "large.bin")
        length, last = 0, b""
        for chunk in opened.chunks(large):  # checks the CRC
            length += len(chunk)
            last = chunk[-5:] if len(chunk) >= 5 else last + chunk
        assert (length, last) == (SIZE, b"end.\n")
