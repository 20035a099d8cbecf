import base64
import csv
import hashlib
import io
import os
import stat
import zipfile
from pathlib import Path

import pytest

from gpuforge.errors import ActionError
from gpuforge.wheel import unpacked

PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00" + bytes(110)  # ELF, 64 bit, little endian, ET_EXEC


def wheel_tree(root: Path, *, order: int = 1) -> Path:
    files = {
        "demo/__init__.py": b"x = 1\n",
        "demo/data/größe,1.txt": b"a\n" * 5000,
        "demo/tool": PROGRAM,
        "demo/core.so": b"\x7fELF not really",
        "demo-1.0.data/scripts/run": b"#!python\n",
        "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        "demo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
        "demo-1.0.dist-info/RECORD": b"stale\n",
        "demo-1.0.dist-info/RECORD.jws": b"stale\n",
        "zzz.py": b"",
    }
    for name, data in list(files.items())[::order]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def members(wheel: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(wheel) as bundle:
        return bundle.infolist()


def test_place_time_mode_and_order_of_files_do_not_change_the_bytes(tmp_path):
    one = wheel_tree(tmp_path / "one")
    two = wheel_tree(tmp_path / "elsewhere" / "two", order=-1)
    for path in unpacked.files(two):
        os.utime(path, (1e9, 1e9))
        path.chmod(0o660)
    (two / "empty").mkdir()
    (one / "demo" / "core.so").chmod(0o755)  # as linkers leave it
    unpacked.write(one, tmp_path / "a" / "demo-1.0-py3-none-any.whl")
    unpacked.write(two, tmp_path / "b" / "demo-1.0-py3-none-any.whl")
    first, second = (tmp_path / name / "demo-1.0-py3-none-any.whl" for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_members_are_sorted_with_the_record_last_and_have_normal_modes_and_times(tmp_path):
    tree = wheel_tree(tmp_path / "tree")
    (tree / "demo" / "helper.sh").write_text("#!/bin/sh\n")
    (tree / "demo" / "helper.sh").chmod(0o700)
    unpacked.write(tree, tmp_path / "x.whl", epoch=1_700_000_001)
    found = members(tmp_path / "x.whl")
    assert [(info.filename, oct(stat.S_IMODE(info.external_attr >> 16))) for info in found] == [
        ("demo-1.0.data/scripts/run", "0o755"),
        ("demo/__init__.py", "0o644"),
        ("demo/core.so", "0o644"),
        ("demo/data/größe,1.txt", "0o644"),
        ("demo/helper.sh", "0o755"),
        ("demo/tool", "0o755"),
        ("zzz.py", "0o644"),
        ("demo-1.0.dist-info/METADATA", "0o644"),
        ("demo-1.0.dist-info/WHEEL", "0o644"),
        ("demo-1.0.dist-info/RECORD", "0o644"),
    ]
    assert {info.date_time for info in found} == {(2023, 11, 14, 22, 13, 20)}
    assert {info.compress_type for info in found} == {zipfile.ZIP_DEFLATED}


@pytest.mark.parametrize(("epoch", "year"), [(None, 1980), (0, 1980), (10**12, 2107)])
def test_times_outside_the_range_of_zip_become_the_nearest_inside(tmp_path, epoch, year):
    unpacked.write(wheel_tree(tmp_path / "tree"), tmp_path / "x.whl", epoch=epoch)
    assert {info.date_time[0] for info in members(tmp_path / "x.whl")} == {year}


def test_record_lists_every_member_with_its_hash_and_size(tmp_path):
    unpacked.write(wheel_tree(tmp_path / "tree"), tmp_path / "x.whl")
    with zipfile.ZipFile(tmp_path / "x.whl") as bundle:
        assert bundle.testzip() is None
        rows = {
            row[0]: row[1:]
            for row in csv.reader(io.StringIO(bundle.read("demo-1.0.dist-info/RECORD").decode()))
        }
        assert list(rows) == bundle.namelist()
        assert rows.pop("demo-1.0.dist-info/RECORD") == ["", ""]
        for name, (digest, size) in rows.items():
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(bundle.read(name)).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={sha256}", len(bundle.read(name)))


def test_an_unpacked_wheel_is_written_again_with_the_same_bytes(tmp_path):
    unpacked.write(wheel_tree(tmp_path / "tree"), tmp_path / "a.whl")
    unpacked.unpack(tmp_path / "a.whl", tmp_path / "again")
    unpacked.write(tmp_path / "again", tmp_path / "b.whl")
    assert (tmp_path / "a.whl").read_bytes() == (tmp_path / "b.whl").read_bytes()


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["/etc/passwd"], "'/etc/passwd': its path leads out of the wheel or is empty"),
        (["a/../../b"], "'a/../../b': its path leads out of the wheel or is empty"),
        (["a\\b"], "'a\\\\b': its path leads out of the wheel or is empty"),
        (["a", "./a"], "'a': it is there twice"),
        (["a/b", "a/b"], "'a/b': it is there twice"),
        (["a/b", "a"], "'a': it is a file and a folder at once"),
        ([link("a")], "'a': it is a link or a special file"),
    ],
)
def test_members_that_no_wheel_may_have_are_refused(tmp_path, names, reason):
    with zipfile.ZipFile(tmp_path / "bad.whl", "w") as bundle:
        for name in names:
            bundle.writestr(name, b"x")
    with pytest.raises(ActionError) as caught:
        unpacked.unpack(tmp_path / "bad.whl", tmp_path / "out")
    assert str(caught.value) == (
        f"bad.whl holds a member that no wheel may have: {reason}\n"
        "  hint: the program that wrote this wheel is at fault; nothing was unpacked"
    )
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "text"])
def test_a_damaged_archive_is_one_clear_error(tmp_path, damage):
    unpacked.write(wheel_tree(tmp_path / "tree"), tmp_path / "x.whl")
    data = bytearray((tmp_path / "x.whl").read_bytes())
    at = data.index(b"demo/__init__.py") + 18
    data[at] ^= 0xFF
    bad = {"cut": bytes(data[:-30]), "flipped": bytes(data), "text": b"<html>"}[damage]
    (tmp_path / "x.whl").write_bytes(bad)
    with pytest.raises(
        ActionError, match=r"^x\.whl is not a sound wheel: .*\n  hint: build or download it again$"
    ):
        unpacked.unpack(tmp_path / "x.whl", tmp_path / "out")


def test_a_link_in_the_tree_is_refused_and_nothing_is_left(tmp_path):
    tree = wheel_tree(tmp_path / "tree")
    (tree / "demo" / "alias").symlink_to("tool")
    with pytest.raises(ActionError, match="demo/alias is a link or a special file; a wheel can hold neither"):
        unpacked.write(tree, tmp_path / "out" / "x.whl")
    assert not (tmp_path / "out").exists()


def test_a_failure_while_writing_leaves_the_old_file_and_no_other(tmp_path):
    tree = wheel_tree(tmp_path / "tree")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.whl").write_text("old")
    (tree / "demo-1.0.dist-info" / "RECORD").unlink()
    (tree / "demo-1.0.dist-info" / "RECORD").mkdir()  # so that RECORD cannot be written
    with pytest.raises(ActionError, match=r"RECORD: Is a directory$"):
        unpacked.write(tree, tmp_path / "out" / "x.whl")
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {"x.whl": "old"}


@pytest.mark.parametrize("count", [0, 2])
def test_a_wheel_has_one_dist_info(tmp_path, count):
    for number in range(count):
        (tmp_path / f"d{number}-1.dist-info").mkdir()
    with pytest.raises(ActionError) as caught:
        unpacked.dist_info(tmp_path)
    said = "d0-1.dist-info and d1-1.dist-info" if count else "none"
    assert str(caught.value) == (
        f"a wheel has exactly one .dist-info folder, and this one has {said}\n  hint: check the project's build"
    )


def test_members_beyond_four_gigabytes_are_written_by_zip64(tmp_path, monkeypatch):
    """The limit is lowered, so that the path is taken in no time; an integration test takes it for real."""
    tree = wheel_tree(tmp_path / "tree")
    (tree / "demo" / "large.bin").write_bytes(bytes(5000))
    unpacked.write(tree, tmp_path / "small.whl")
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    unpacked.write(tree, tmp_path / "large.whl")
    with zipfile.ZipFile(tmp_path / "large.whl") as bundle:
        assert bundle.testzip() is None
        assert (
            bundle.getinfo("demo/large.bin").extract_version == 45
        )  # the version of the format that has ZIP64
    with zipfile.ZipFile(tmp_path / "small.whl") as bundle:
        assert bundle.getinfo("demo/large.bin").extract_version < 45
