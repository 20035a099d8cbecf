"""Wheels on a server are read by byte ranges, with a request for each member."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests
from audit_samples import elf, wheel

from gpuforge.errors import CorruptError, MalformedError
from gpuforge.wheel import metadata
from gpuforge.wheel.archive import Archive, shared_libraries
from gpuforge.wheel.remote import RemoteArchive
from gpuforge.wheel.remote import fetch as fetch_range

FILES = {"demo/libx.so.1": elf(soname="libx.so.1"), "demo/stubs/liby.so": elf(), "demo/empty.py": b""}


class Server:
    """A file in memory that counts how often it is asked for bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.requests = data, 0

    def fetch(self, start: int, count: int) -> Iterator[bytes]:
        self.requests += 1
        assert 0 <= start <= start + count <= len(self.data)
        yield from (self.data[at : at + 7] for at in range(start, start + count - 7, 7))
        yield self.data[start + max(0, count - 1) // 7 * 7 : start + count]


def test_members_are_those_of_the_file(tmp_path):
    path = wheel(tmp_path, FILES, requires=["numpy"])
    server = Server(path.read_bytes())
    with Archive(path) as local, RemoteArchive(path.name, len(server.data), server.fetch) as remote:
        assert remote.members == local.members
        for member in remote.members:
            assert remote.data(member) == local.data(member) == b"".join(remote.chunks(member))
        assert metadata.fields(metadata.of_archive(remote), "Requires-Dist") == ["numpy"]
        assert list(shared_libraries(remote)) == ["libx.so.1"]


def test_a_member_takes_two_requests_at_most(tmp_path):
    server = Server(wheel(tmp_path, FILES).read_bytes())
    with RemoteArchive("demo.whl", len(server.data), server.fetch) as remote:
        server.requests = 0
        assert b"".join(remote.chunks(shared_libraries(remote)["libx.so.1"])) == FILES["demo/libx.so.1"]
        assert server.requests == 0  # the block with the directory has all of it


def test_a_file_that_is_not_a_wheel(tmp_path):
    server = Server(b"<html>not found</html>")
    with pytest.raises(MalformedError, match="is not a sound wheel"):
        RemoteArchive("demo.whl", len(server.data), server.fetch)


def test_bytes_that_changed_on_the_way_are_an_error(tmp_path):
    path = wheel(tmp_path, FILES)
    data = bytearray(path.read_bytes())
    with Archive(path) as local:
        data[shared_libraries(local)["libx.so.1"].header + 60] ^= 0xFF
    with RemoteArchive("demo.whl", len(data), Server(bytes(data)).fetch) as remote:
        member = shared_libraries(remote)["libx.so.1"]
        with pytest.raises(CorruptError):
            list(remote.chunks(member))


@pytest.mark.parametrize("ranges", [True, False], ids=["with ranges", "without ranges"])
def test_ranges_of_a_server(ranges):
    data = bytes(range(256)) * 10

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            body = data[start : end + 1] if ranges else data
            self.send_response(206 if ranges else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        session = requests.Session()
        session.trust_env = False
        fetch = partial(fetch_range, session, f"http://127.0.0.1:{server.server_port}/x.whl")
        assert b"".join(fetch(300, 700)) == data[300:1000]
        assert list(fetch(5, 0)) == []
        with pytest.raises(requests.ConnectionError):
            list(fetch(2000, 10_000))
    finally:
        server.shutdown()
        server.server_close()
