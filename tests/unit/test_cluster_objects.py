"""Objects: the same behaviour in a folder and behind fsspec, whole objects only, one winner, no credentials."""

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import fsspec
import pytest

from gpuforge.cluster import folder as connecting
from gpuforge.cluster.bucket import RemoteObjects
from gpuforge.cluster.folder import FolderObjects, connect
from gpuforge.cluster.objects import Objects, ObjectsError
from gpuforge.errors import GpuforgeError


@pytest.fixture(params=["folder", "memory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    if request.param == "folder":
        yield FolderObjects(tmp_path / "shared")
        return
    yield RemoteObjects("memory://bucket/team")
    fsspec.filesystem("memory").store.clear()


def test_what_is_put_is_read_and_an_absent_name_is_none(objects):
    assert objects.read("a/b") is None
    assert objects.find("") == objects.find("a") == []
    objects.put("a/b", b"one")
    objects.put("a/b", b"two")
    objects.put("empty", b"")
    assert (objects.read("a/b"), objects.read("empty")) == (b"two", b"")
    assert objects.names("") == ["a/b", "empty"]
    (found,) = objects.find("a")
    assert (found.name, found.size) == ("a/b", 3)
    assert found.modified > 1.7e9
    objects.remove("a/b")
    objects.remove("a/b")
    assert objects.names("") == ["empty"]


def test_names_are_those_below_a_folder_not_those_that_begin_alike(objects):
    for name in ("runs/1/log", "runs/10/log", "runs/1/state"):
        objects.put(name, b"x")
    assert objects.names("runs/1") == ["runs/1/log", "runs/1/state"]


def test_create_is_conditional(objects):
    assert objects.create("lease", b"mine") is True
    assert objects.create("lease", b"yours") is False
    assert objects.read("lease") == b"mine"
    objects.remove("lease")
    assert objects.create("lease", b"yours") is True


def test_files_go_up_and_come_down(objects, tmp_path):
    (tmp_path / "up").write_bytes(b"archive" * 1000)
    objects.upload(tmp_path / "up", "e/archive")
    assert objects.download("e/archive", tmp_path / "down", 7000) is True
    assert (tmp_path / "down").read_bytes() == b"archive" * 1000
    assert objects.download("e/other", tmp_path / "none", 7000) is False
    assert not (tmp_path / "none").exists()


def test_what_is_larger_than_it_may_be_is_none(objects, tmp_path):
    objects.put("e/archive", b"x" * 1000)
    assert objects.download("e/archive", tmp_path / "down", 999) is False
    assert not (tmp_path / "down").exists()
    assert objects.read("e/archive", 999) == b""


def compete(root: Path, number: int, rounds: int, start: Barrier, won: Path) -> None:
    objects = FolderObjects(root)
    wins = []
    for each in range(rounds):
        start.wait()
        wins.append(objects.create(f"claims/{each}", b"%d" % number * 1000))
    won.write_text("".join("1" if win else "0" for win in wins))


@pytest.mark.thorough
def test_of_several_processes_that_create_one_object_one_wins(tmp_path):
    context, rounds = multiprocessing.get_context("spawn"), 50
    start = context.Barrier(3)
    processes = [
        context.Process(target=compete, args=(tmp_path / "s", n, rounds, start, tmp_path / f"{n}"))
        for n in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    winners = list(zip(*((tmp_path / f"{n}").read_text() for n in range(3)), strict=True))
    assert [each.count("1") for each in winners] == [1] * rounds
    for each, result in enumerate(winners):
        assert FolderObjects(tmp_path / "s").read(f"claims/{each}") == b"%d" % result.index("1") * 1000
    assert list((tmp_path / "s/.parts").iterdir()) == []


def test_a_link_in_a_shared_folder_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("private")
    objects = FolderObjects(tmp_path / "s")
    objects.put("a/b", b"x")
    (tmp_path / "s/a/c").symlink_to(tmp_path / "secret")
    (tmp_path / "s/d").symlink_to(tmp_path)
    assert objects.read("a/c") == b""
    assert objects.download("a/c", tmp_path / "down", 100) is False
    assert objects.read("d/secret") is None
    assert objects.download("d/secret", tmp_path / "down", 100) is False
    assert not (tmp_path / "down").exists()


@pytest.mark.parametrize("name", ["a", "a/b", "a/b/record"])
@pytest.mark.parametrize(
    "harm", ["touch {0}", "mkdir -p {0}/x", "mkfifo {0}", "ln -s {1} {0}", "ln -s no {0}"]
)
def test_what_lies_in_the_way_of_an_object_is_removed_and_no_link_leads_out(tmp_path, name, harm):
    (tmp_path / "elsewhere").mkdir()
    objects, place = FolderObjects(tmp_path / "s"), tmp_path / "s" / name
    place.parent.mkdir(parents=True)
    assert os.system(harm.format(place, tmp_path / "elsewhere")) == 0  # noqa: S605 - the test's own text
    objects.put("a/b/record", b"mine")
    assert objects.read("a/b/record") == b"mine"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("shared/store", "'shared/store' is not an address of a shared store"),
        ("s3://KEY1234:SECRET99@bucket/x", "the address of the shared store at s3:// has a user name"),
        (
            "s3://bucket/x?X-Amz-Signature=SECRET99",
            "the address of the shared store at s3:// has a user name",
        ),
        ("http://host/x", "http:// is not an address of a shared store"),
        ("s3:///folder", "s3:///folder names no bucket"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_what_is_secret(url, message):
    with pytest.raises(GpuforgeError) as caught:
        connect(url)
    assert str(caught.value).startswith(message)
    assert "SECRET99" not in str(caught.value)


def test_a_missing_package_is_named_with_the_extra_that_has_it(monkeypatch):
    monkeypatch.setattr(connecting, "find_spec", lambda _: None)
    with pytest.raises(GpuforgeError) as caught:
        connect("gs://bucket")
    assert str(caught.value) == (
        "a shared store at gs:// needs the Python package gcsfs, which is not installed\n"
        "  hint: pip install gcsfs, or gpuforge with its extra gcs"
    )


def test_a_folder_and_a_file_url_are_one(tmp_path):
    connect(str(tmp_path)).put("a", b"x")
    assert connect(f"file://{tmp_path}").read("a") == b"x"


def test_what_a_library_reports_is_shown_without_credentials(monkeypatch):
    objects = RemoteObjects("memory://bucket")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")

    def fail(*_: object, **__: object) -> None:
        msg = "http://me:pass@10.0.0.1/bucket?X-Amz-Signature=abc with wJalrXUtnFEMI refused"
        raise ConnectionError(msg)

    monkeypatch.setattr(objects._system, "pipe_file", fail)
    with pytest.raises(ObjectsError) as caught:
        objects.put("a", b"x")
    assert str(caught.value) == (
        "the shared store memory://bucket fails: cannot write a: "
        "ConnectionError: http://…@10.0.0.1/bucket?… with … refused\n"
        "  hint: check the address, the credentials and the network, or unset GPUFORGE_STORE"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_one_message(tmp_path):
    (tmp_path / "s").mkdir(mode=0o500)
    with pytest.raises(ObjectsError, match="Permission denied"):
        FolderObjects(tmp_path / "s").put("a", b"x")


def test_a_file_in_the_place_of_the_folder_is_one_message(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(ObjectsError) as caught:
        FolderObjects(tmp_path / "s").put("a", b"x")
    assert str(caught.value) == (
        f"the shared store {tmp_path}/s fails: a cannot be written: Not a directory\n"
        "  hint: check the folder, or unset GPUFORGE_STORE"
    )
