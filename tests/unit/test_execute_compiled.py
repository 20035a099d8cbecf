"""The compiler cache that machines share: what its socket gives and takes, and that its failures reach no build."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpuforge.errors import MissingError
from gpuforge.execute.compiled import entries as entries_module
from gpuforge.execute.compiled import service
from gpuforge.execute.compiled.entries import Entries
from gpuforge.execute.compiled.offer import offered
from gpuforge.execute.objects.folder import FolderObjects
from gpuforge.steps import cache_bridge
from gpuforge.toolchains import sccache

KEY = "0123456789abcdef" * 4
PATH = f"0/1/2/{KEY}"


class Cache:
    """A project's entries in a folder, and what was reported."""

    def __init__(self, root: Path, project: str = "mine") -> None:
        self.told: list[str] = []
        self.root = root / "shared"
        self.entries = Entries(lambda: FolderObjects(self.root), project, self.told.append)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


class Connection(http.client.HTTPConnection):
    """A client of a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = cache_bridge._connect(self.path)


@contextmanager
def client(entries: Entries, folder: Path) -> Iterator[tuple[Connection, str]]:
    with service.serving(entries, folder) as place:
        (path,) = place.iterdir()
        yield Connection(path), path.name


def ask(
    way: Connection, method: str, path: str, data: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    way.request(method, path, data, headers)
    answer = way.getresponse()
    found = answer.status, answer.read()
    way.close()
    return found


@pytest.mark.thorough
def test_an_entry_is_there_for_the_next_machine(tmp_path: Path) -> None:
    for n in range(2):
        with client(Cache(tmp_path).entries, tmp_path / f"machine{n}") as (way, bucket):
            assert ask(way, "GET", f"/{bucket}/{PATH}") == ((404, b"") if n == 0 else (200, b"object"))
            assert ask(way, "PUT", f"/{bucket}/{PATH}", b"object")[0] == 200
    assert [p.name for p in (tmp_path / "shared/compiled/mine").rglob("*") if p.is_file()] == [KEY]


def test_a_build_names_no_entry_of_another_project_and_no_other_object(tmp_path: Path) -> None:
    other = Cache(tmp_path, "other").entries
    assert other.write(KEY, b"secret")
    (tmp_path / "shared/entries").mkdir()
    (tmp_path / "shared/entries/record.json").write_text("{}")
    with client(Cache(tmp_path).entries, tmp_path) as (way, bucket):
        for path in (
            f"/{bucket}/{PATH}",
            f"/{bucket}/../other/{PATH}",
            f"/{bucket}/other/{PATH}",
            f"/{bucket}/%2e%2e/other/01/{KEY}",
            f"/{bucket}/../../entries/record.json",
            f"/{bucket}/0/1/2/../../../../../entries/record.json",
            f"/other/{PATH}",
            f"//{PATH}",
            f"/{bucket}/0/1/2/{KEY.upper()}",
            f"/{bucket}/0/1/2/{KEY}?x=/../../other",
        ):
            assert ask(way, "GET", path) == (404, b""), path
        for path in (f"/{bucket}/other/{PATH}", f"/{bucket}/../other/{PATH}", f"/x/{PATH}"):
            assert ask(way, "PUT", path, b"")[0] == 404  # it is answered before a body is read
    assert other.read(KEY) == b"secret"
    assert sorted(p.name for p in (tmp_path / "shared/compiled").iterdir()) == ["other"]


def test_sccache_may_look_whether_it_reads_and_writes(cache: Cache, tmp_path: Path) -> None:
    with client(cache.entries, tmp_path) as (way, bucket):
        assert ask(way, "PUT", f"/{bucket}/.sccache_check", b"x")[0] == 200
        assert ask(way, "GET", f"/{bucket}/.sccache_check") == (200, b"")
    assert not cache.root.exists()


@pytest.mark.parametrize("how", ["changed", "truncated", "empty"])
def test_a_damaged_entry_is_none(cache: Cache, how: str) -> None:
    assert cache.entries.write(KEY, b"object" * 100)
    (file,) = (p for p in cache.root.rglob("*") if p.is_file())
    data = file.read_bytes()
    file.write_bytes({"changed": data[:-1] + b"x", "truncated": data[:-1], "empty": b""}[how])
    assert cache.entries.read(KEY) is None
    assert cache.told == []
    assert cache.entries.write(KEY, b"new")
    assert cache.entries.read(KEY) == b"new"


def test_a_place_that_fails_is_reported_once_and_left_alone(tmp_path: Path) -> None:
    told: list[str] = []
    calls = []

    class Down:
        def read(self, name: str, most: int) -> bytes | None:
            calls.append(name)
            raise MissingError.of("the shared store s3://b fails: no route", hint="check the network")

        def put(self, name: str, data: bytes) -> None:
            calls.append(name)

    entries = Entries(Down, "mine", told.append)
    with client(entries, tmp_path) as (way, bucket):
        assert ask(way, "GET", f"/{bucket}/{PATH}") == (404, b"")
        assert ask(way, "PUT", f"/{bucket}/{PATH}", b"x")[0] == 507
        assert ask(way, "GET", f"/{bucket}/{PATH}") == (404, b"")
    assert len(calls) == 1
    assert told == [
        "note: builds go on without the shared compiler cache: the shared store s3://b fails: no route"
        " (check the network)"
    ]


def test_a_run_writes_no_more_than_it_may(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries_module, "ROOM", 10)
    entries = Cache(cache.root.parent).entries
    assert entries.write(KEY, b"123456")
    assert not entries.write(KEY, b"123456")
    assert entries.read(KEY) == b"123456"


@pytest.mark.parametrize("length", ["", "-1", "x", "1e3", str((128 << 20) + 1), "9" * 30])
def test_what_has_no_length_or_too_much_is_not_read(cache: Cache, tmp_path: Path, length: str) -> None:
    with client(cache.entries, tmp_path) as (way, bucket):
        way.connect()
        lines = f"PUT /{bucket}/{PATH} HTTP/1.1\r\n" + (f"Content-Length: {length}\r\n" if length else "")
        way.sock.sendall(f"{lines}\r\n".encode())
        assert way.sock.recv(100).startswith(b"HTTP/1.0 413 ")
        way.close()
    assert not cache.root.exists()


def test_an_entry_that_does_not_come_whole_is_not_written(cache: Cache, tmp_path: Path) -> None:
    with client(cache.entries, tmp_path) as (way, bucket):
        way.connect()
        way.sock.sendall(f"PUT /{bucket}/{PATH} HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf".encode())
        way.sock.shutdown(socket.SHUT_WR)
        assert way.sock.recv(100) == b""
        way.close()
    assert not cache.root.exists()


def test_bytes_that_are_no_request_end_nothing(
    cache: Cache, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with client(cache.entries, tmp_path) as (way, bucket):
        lines = b"GET / HTTP/1.1\r\n"
        for data in (
            b"\0" * 100_000,
            b"\r\n" * 100,
            b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n",
            lines + b"x" * 100_000,
            lines + b"a: b\r\n" * 1000 + b"\r\n",
            f"GET /{bucket}/{PATH}\r\n".encode(),
            f"BREW /{bucket}/{PATH} HTTP/1.1\r\n\r\n".encode(),
            f"GET /{bucket}/{PATH} HTTP/99.1\r\n\r\n".encode(),
        ):
            way.connect()
            with suppress(OSError):
                way.sock.sendall(data)
                way.sock.shutdown(socket.SHUT_WR)
                way.sock.recv(100)
            way.close()
        assert ask(way, "PUT", f"/{bucket}/{PATH}", b"object")[0] == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.thorough
def test_clients_that_say_nothing_do_not_stop_the_others_for_ever(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service._Handler, "timeout", 0.3)
    with client(cache.entries, tmp_path) as (way, bucket):
        silent = [cache_bridge._connect(way.path) for _ in range(20)]
        assert ask(way, "PUT", f"/{bucket}/{PATH}", b"object")[0] == 200
        for each in silent:
            each.close()


@pytest.mark.thorough
def test_sockets_that_nobody_serves_are_removed_and_others_stay(cache: Cache, tmp_path: Path) -> None:
    with service.serving(cache.entries, tmp_path) as alive:
        dead = tmp_path / "sockets/dead"
        dead.mkdir()
        with socket.socket(socket.AF_UNIX) as closed:
            closed.bind(str(dead / "bucket"))
        with service.serving(cache.entries, tmp_path):
            assert alive.is_dir()
            assert not dead.exists()
    assert list((tmp_path / "sockets").iterdir()) == []


@pytest.mark.thorough
def test_a_bridge_carries_a_conversation(cache: Cache, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90) / ("y" * 90)  # a socket's path may have 107 bytes
    with offered({"GPUFORGE_X": "1"}, long, "mine", str(cache.root), cache.told.append) as variables:
        assert variables["SCCACHE_DIR"] == str(long / "sccache/mine")
        assert Path(variables[sccache.SHARED]).stat().st_mode & 0o777 == 0o700
        settings = {**variables, "https_proxy": "http://p", "SCCACHE_S3_KEY_PREFIX": "x", "AWS_PROFILE": "p"}
        with cache_bridge.bridged(settings) as given:
            assert given["SCCACHE_MULTILEVEL_CHAIN"] == "disk,s3"
            assert not {"https_proxy", "SCCACHE_S3_KEY_PREFIX", "AWS_PROFILE"} & given.keys()
            way, bucket = http.client.HTTPConnection(given["SCCACHE_ENDPOINT"]), given["SCCACHE_BUCKET"]
            data = bytes(range(256)) * 5000
            for method, body, expected in (("PUT", data, b""), ("GET", None, data)):
                way.request(method, f"/{bucket}/{PATH}", body)
                assert way.getresponse().read() == expected
                way.close()
    assert threading.active_count() < 20


def test_a_folder_without_a_server_leaves_this_machines_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"SCCACHE_DIR": "/x", sccache.SHARED: str(tmp_path)}
    with cache_bridge.bridged(settings) as given:
        assert given == settings
    assert capsys.readouterr().out == "compiler cache: what machines share cannot be reached from here\n"


def test_the_users_own_back_end_is_not_replaced(tmp_path: Path) -> None:
    settings = {"SCCACHE_DIR": "/x", sccache.SHARED: str(tmp_path), "SCCACHE_REDIS_ENDPOINT": "tcp://h"}
    with cache_bridge.bridged(settings) as given:
        assert given == settings
    file = tmp_path / "config"
    for text, expected in (
        ("[cache.redis]\n", str(file)),
        ("[cache.disk]\n", ""),
        ("[", ""),
        ("cache = 1", ""),
    ):
        file.write_text(text)
        assert sccache.back_end({"SCCACHE_CONF": str(file)}) == expected
    assert sccache.back_end({"SCCACHE_CONF": str(tmp_path / "none")}) == ""


def test_there_is_no_socket_where_nothing_is_shared(tmp_path: Path) -> None:
    for environ, url in (({}, None), ({sccache.OFF: "1"}, "/store"), ({"SCCACHE_DIR": "/x"}, None)):
        with offered(environ, tmp_path, "mine", url, print) as variables:
            assert sccache.SHARED not in variables
    assert not (tmp_path / "sockets").exists()


def test_a_folder_that_takes_no_socket_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sockets").write_text("")
    told: list[str] = []
    with offered({}, tmp_path, "mine", "/store", told.append) as variables:
        assert sccache.SHARED not in variables
    assert told == [
        f"note: builds go on without the shared compiler cache: no socket in {tmp_path}: File exists"
    ]
