"""Connects a build to the compiler cache that machines share: from a local port to gpuforge's socket.

sccache speaks S3 over TCP alone, and a container has no network but 127.0.0.1. The other end of the socket is
`execute/compiled/service.py`, which has the credentials, the network, and a limit for everything.
"""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuforge.toolchains import sccache

_CHUNK = 1 << 16  # bytes
_KEPT = (
    sccache.FOLDER,
    sccache.SIZE,
    "SCCACHE_CACHE_ZSTD_LEVEL",
    "SCCACHE_LOG",
)  # no proxy, no key, no prefix


@contextmanager
def bridged(settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the settings of a server that asks this machine's folder first, then the shared cache.

    They are `settings` unchanged if no cache is shared, or if the user set up a back end of sccache's own.
    """
    shared = settings.get(sccache.SHARED)
    found = _socket(Path(shared)) if shared and not sccache.back_end(settings) else None
    if found is None:
        yield dict(settings)
        return
    with _Bridge(found) as bridge:
        threading.Thread(target=bridge.serve_forever, args=(0.1,), daemon=True).start()
        own = {name: value for name, value in settings.items() if name in _KEPT}
        try:
            yield own | _settings(bridge.server_address[1], bucket=found.name)
        finally:
            bridge.shutdown()


def _settings(port: int, bucket: str) -> dict[str, str]:
    return {
        "SCCACHE_MULTILEVEL_CHAIN": "disk,s3",
        "SCCACHE_MULTILEVEL_WRITE_ERROR_POLICY": "ignore",
        "SCCACHE_BUCKET": bucket,
        "SCCACHE_REGION": "us-east-1",  # any
        "SCCACHE_ENDPOINT": f"127.0.0.1:{port}",
        "SCCACHE_S3_USE_SSL": "false",
        "SCCACHE_S3_NO_CREDENTIALS": "true",
    }


def _socket(folder: Path) -> Path | None:
    """Return the socket in a folder if a process serves it; its name is that of the bucket."""
    with suppress(OSError):
        for each in folder.iterdir():
            _connect(each).close()
            return each
    print("compiler cache: what machines share cannot be reached from here", flush=True)
    return None


def _connect(path: Path) -> socket.socket:
    """Connect to the socket at a path of any length; the kernel takes 107 bytes (unix(7))."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(f"/proc/self/fd/{folder}/{path.name}")
    except OSError:
        client.close()
        raise
    finally:
        os.close(folder)
    return client


class _Bridge(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.path = path

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore it: one of the two went away, and the other gets the end of the connection."""


class _Connection(socketserver.BaseRequestHandler):
    server: _Bridge
    request: socket.socket

    def handle(self) -> None:
        with _connect(self.server.path) as other:
            back = threading.Thread(target=_copy, args=(other, self.request), daemon=True)
            back.start()
            _copy(self.request, other)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes from one socket to another until the end, which is passed on."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for each, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            each.shutdown(how)
