"""A shared store on several machines, and the harm that others can do to its entries."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from gpuforge.cluster.folder import FolderObjects
from gpuforge.cluster.record import record_name
from gpuforge.cluster.shared_store import SharedStore
from gpuforge.execute.entry import StoreEntry, sealed, survey
from gpuforge.execute.store import FolderStore, Stored

KEY, OTHER = "ab" + "0" * 62, "cd" + "0" * 62


def machine(tmp_path: Path, name: str) -> SharedStore:
    return SharedStore(FolderStore(tmp_path / name), FolderObjects(tmp_path / "shared"))


def put(
    store: SharedStore,
    text: str = "kernel",
    key: str = KEY,
    target: str = "bin",
    *,
    links_out: bool = True,
) -> Stored:
    with store.scratch() as out:
        (out / "kernel.fatbin").write_text(text)
        (out / "tree/bin").mkdir(parents=True)
        (out / "tree/empty/deep").mkdir(parents=True)
        (out / "tree/bin/nvcc").write_text("#!/bin/sh\n")
        (out / "tree/bin/nvcc").chmod(0o775)
        os.utime(out / "tree/bin/nvcc", (1577836800, 1577836800))
        (out / "tree/lib64").symlink_to(target)
        outputs = ("kernel.fatbin", "tree")
        record = StoreEntry("k", 1.5, "2026-11-21T14:03:00+00:00", outputs, survey(out, outputs))
        return store.commit(key, out, record, links_out=links_out)


def record_of(tmp_path: Path) -> Path:
    return tmp_path / "shared" / record_name(KEY)


def changed(act: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def change(place: Path) -> None:
        data = read(place)
        act(data)
        write(place, data)

    return change


def read(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.read_text())["record"]
    return found


def write(place: Path, data: dict[str, Any]) -> None:
    """Write a record as whoever can write to the store may do it: with its sum."""
    place.write_bytes(sealed(place.parent.name, json.dumps(data).encode()))


def content_of(place: Path) -> Path:
    data = read(place)
    return place.parent / f"{data['content'][0]}.zst"


def with_content(data: bytes) -> Callable[[Path], None]:
    """Replace the content, and its sha256 in the record."""

    def change(place: Path) -> None:
        import hashlib

        content_of(place).write_bytes(data)
        record = read(place)
        record["content"][1:] = [len(data), hashlib.sha256(data).hexdigest()]
        write(place, record)

    return change


def entry(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["entry"]
    return found


def moved(path: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        files = entry(data)["files"]
        files[path] = files.pop("tree/bin/nvcc")

    return change


def bomb(place: Path) -> None:
    with_content(zstandard.compress(b"kernel#!/bin/sh\n" + bytes(100_000_000)))(place)


def folder_at(place: Path) -> None:
    place.unlink()
    (place / "full").mkdir(parents=True)


def pipe_at(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


def link_at(place: Path) -> None:
    place.rename(place.with_name("elsewhere"))
    place.symlink_to("elsewhere")


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte changed": (
        lambda place: content_of(place).write_bytes(content_of(place).read_bytes()[:-1] + b"!"),
        "its content is not what was stored",
    ),
    "truncated": (
        lambda place: content_of(place).write_bytes(content_of(place).read_bytes()[:-1]),
        "its content is not what was stored",
    ),
    "lost": (lambda place: content_of(place).unlink(), "its content is gone"),
    "larger": (
        lambda place: content_of(place).write_bytes(content_of(place).read_bytes() + b"more"),
        "its content is gone, or is not a file",
    ),
    "a folder for a content": (
        lambda place: folder_at(content_of(place)),
        "its content is gone, or is not a file",
    ),
    "a pipe for a content": (
        lambda place: pipe_at(content_of(place)),
        "its content is gone, or is not a file",
    ),
    "a link for a content": (
        lambda place: link_at(content_of(place)),
        "its content is gone, or is not a file",
    ),
    "a folder for a record": (folder_at, "its record has no checksum"),
    "a pipe for a record": (pipe_at, "its record has no checksum"),
    "a link for a record": (link_at, "its record has no checksum"),
    "truncated with its sha256": (
        with_content(zstandard.compress(b"kernel#!/bin/sh")),
        "tree/bin/nvcc: 1 bytes missing",
    ),
    "another file with its sha256": (
        with_content(zstandard.compress(b"kernel#!/bin/ls\n")),
        "tree/bin/nvcc is not what was stored",
    ),
    "a bomb": (
        bomb,
        "its content has more bytes than its record says",
    ),
    "no zstd": (with_content(b"\x1f\x8b" * 20), "its content cannot be unpacked"),
    "dots": (changed(moved("tree/../../../evil")), "'tree/../../../evil' is not a path inside it"),
    "absolute": (changed(moved("/etc/evil")), "'/etc/evil' is not a path inside it"),
    "another output": (changed(moved("more/evil")), "'more/evil' is in none of its outputs"),
    "below a link": (changed(moved("tree/lib64/evil")), "'tree/lib64/evil' is below a file"),
    "an output outside": (
        changed(lambda data: entry(data).update(outputs=["..", "tree"])),
        "an output's name is not a file name",
    ),
    "a folder outside": (
        changed(lambda data: data.update(folders=["tree/../../evil"])),
        "'tree/../../evil' is not a path inside it",
    ),
    "a folder below a link": (
        changed(lambda data: data.update(folders=["tree/lib64/evil"])),
        "'tree/lib64/evil' is below a file",
    ),
    "sizes that lie": (
        changed(lambda data: entry(data)["files"]["tree/bin/nvcc"].__setitem__(0, 9)),
        "tree/bin/nvcc is not what was stored",
    ),
    "a negative size": (
        changed(lambda data: entry(data)["files"]["tree/bin/nvcc"].__setitem__(0, -1)),
        "a file's size is not valid",
    ),
    "sizes without end": (
        changed(lambda data: entry(data)["files"]["tree/bin/nvcc"].__setitem__(0, 10**12)),
        "it is larger than 64 GB",
    ),
    "a large content": (
        changed(lambda data: data["content"].__setitem__(1, 10**9)),
        "its content is larger than what it holds",
    ),
    "a content elsewhere": (
        changed(lambda data: data["content"].__setitem__(0, "../../../../secret")),
        "its content's name is not valid",
    ),
    "no time": (
        changed(lambda data: entry(data).update(seconds=float("nan"))),
        "its time is not valid",
    ),
    "no date": (changed(lambda data: entry(data).update(finished="soon")), "Invalid isoformat string"),
    "text in the place of a number": (
        changed(lambda data: data.update(times=["now"])),
        "its times are not those of its files",
    ),
    "deep": (
        lambda place: place.write_bytes(sealed(KEY, b"[" * 100_000)),
        "a part is missing or of the wrong kind",
    ),
    "no record": (lambda place: write(place, {}), "a part is missing or of the wrong kind ('format')"),
    "no sum": (lambda place: place.write_text("{}"), "its record has no checksum"),
    "an alias of a path": (
        lambda place: write(place, {"format": 1, "alias": "../../etc"}),
        "it is another name of something that is not an entry",
    ),
    "an alias of nothing": (
        lambda place: write(place, {"format": 1, "alias": OTHER}),
        "it is another name of an entry that is gone",
    ),
    "an alias of itself": (
        lambda place: write(place, {"format": 1, "alias": KEY}),
        "it is another name of an entry that is gone",
    ),
}


def age(tmp_path: Path, hours: float) -> None:
    for path in (tmp_path / "shared").rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - hours * 3600
            os.utime(path, (then, then))
