"""A package index on this machine, by HTTP: simple pages, wheels with or without byte ranges, and bad answers."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


class Index(ThreadingHTTPServer):
    """Serves the wheels of a folder; `answer` writes what a request for one of them gets."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.answer = folder, answer
        self.daemon_threads = True
        self.ranges: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/simple/"


@contextmanager
def serving_wheels(folder: Path, answer: Answer | None = None) -> Iterator[Index]:
    """Serve the wheels of a folder while the block runs."""
    with Index(folder, answer or in_ranges) as index:
        threading.Thread(target=index.serve_forever, args=(0.01,), daemon=True).start()
        yield index
        index.shutdown()


def in_ranges(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    """Answer as package indexes do."""
    start, _, end = handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
    first = int(start) if start else max(0, len(data) - int(end))  # `bytes=-500` are the last 500
    part = data[first : int(end) + 1 if start and end else None]
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
    handler.send_header("Content-Length", str(len(part)))
    handler.end_headers()
    handler.wfile.write(part)


def whole(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    """Answer as a server without ranges does."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def read_in_part(index: Index) -> bool:
    """Whether bytes were asked for from an offset on."""
    return any(bounds.startswith("bytes=") for bounds in index.ranges)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Index

    def do_GET(self) -> None:
        folder, name = self.server.folder, self.path.rstrip("/").rpartition("/")[2]
        if self.path.startswith("/simple/"):
            known = [
                p.name
                for p in sorted(folder.glob("*.whl"))
                if p.name.lower().startswith(f"{name.replace('-', '_')}-")
            ]
            hashes = {file: sha256((folder / file).read_bytes()).hexdigest() for file in known}
            links = (f'<a href="/files/{file}#sha256={digest}">{file}</a>' for file, digest in hashes.items())
            page = "".join(links).encode()
            self._send(200 if known else 404, page, "text/html")
        elif name.endswith(".whl") and (folder / name).is_file():
            self.server.ranges.append(self.headers.get("Range", ""))
            try:
                self.server.answer(self, (folder / name).read_bytes())
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
        else:
            self._send(404, b"", "text/plain")

    def do_HEAD(self) -> None:
        name = self.path.rpartition("/")[2]
        file = self.server.folder / name
        self.send_response(200 if file.is_file() else 404)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(file.stat().st_size if file.is_file() else 0))
        self.end_headers()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionResetError):  # of a client that has what it wanted
            super().handle()

    def log_message(self, *_: object) -> None:
        pass

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
