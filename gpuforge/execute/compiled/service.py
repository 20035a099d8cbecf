"""Serves the entries of a compiler cache over a unix socket, by the part of S3's protocol that sccache uses.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html and API_PutObject.html. The client may be a hostile
build: it can name only the entries of one project, and each request has a limit.
"""

from __future__ import annotations

import os
import re
import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpuforge.execute.compiled.entries import MOST, Entries
from gpuforge.tree import remove

_AT_ONCE = 8  # requests; each holds one entry in memory
_KEY = re.compile(r"(?:[0-9a-f]/){3}([0-9a-f]{64})")
_CHECK = ".sccache_check"  # what sccache reads and writes when it starts


@contextmanager
def serving(entries: Entries, cache: Path) -> Iterator[Path]:
    """Serve while the context lasts; yield the socket's folder, which is below `cache` and private to the caller.

    The socket's name is the bucket's, and is secret: a bridge to it on 127.0.0.1 is open to other users of the machine.
    """
    sockets = cache / "sockets"
    sockets.mkdir(parents=True, exist_ok=True)
    _clear(sockets)
    folder = Path(tempfile.mkdtemp(dir=sockets))
    try:
        with _Server(folder, uuid4().hex, entries) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
            thread.start()
            try:
                yield folder
            finally:
                server.shutdown()
    finally:
        remove(folder)


def _clear(sockets: Path) -> None:
    """Remove the folders of sockets that no process serves any more."""
    for each in sockets.glob("*/*"):
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client, _opened(each.parent) as folder:
            try:
                client.connect(f"{folder}/{each.name}")
            except ConnectionRefusedError:
                remove(each.parent)


@contextmanager
def _opened(folder: Path) -> Iterator[str]:
    """Yield a short path of a folder: the path of a socket may have 107 bytes (unix(7))."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path, bucket: str, entries: Entries) -> None:
        self.bucket, self.entries = bucket, entries
        self._free = threading.Semaphore(_AT_ONCE)
        with _opened(folder) as short:
            super().__init__(f"{short}/{bucket}", _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: the client went away."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 60  # seconds for each read and write

    def do_GET(self) -> None:
        name = self._entry()
        found = b"" if name == _CHECK else self.server.entries.read(name) if name else None
        self._answer(HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK, found or b"")

    def do_PUT(self) -> None:
        name, length = self._entry(), self.headers.get("Content-Length", "")
        if not name:
            self._answer(HTTPStatus.NOT_FOUND)
        elif not re.fullmatch(r"[0-9]{1,12}", length) or int(length) > MOST:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            data = self.rfile.read(int(length))
            if len(data) == int(length):
                stored = name == _CHECK or self.server.entries.write(name, data)
                self._answer(HTTPStatus.OK if stored else HTTPStatus.INSUFFICIENT_STORAGE)

    def log_message(self, *_: object) -> None:
        pass

    def _entry(self) -> str:
        """Return the key of the requested entry; "" for any other name."""
        bucket, _, name = self.path.removeprefix("/").partition("/")
        if bucket != self.server.bucket:
            return ""
        found = _KEY.fullmatch(name)
        return found[1] if found else name if name == _CHECK else ""

    def _answer(self, status: HTTPStatus, data: bytes = b"") -> None:
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
