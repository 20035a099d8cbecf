"""A container engine that speaks the API of Docker over HTTP and records what it is asked to fetch and to build."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Engine:
    """What an engine was asked to fetch (`pulls`) and to build: each image with its build arguments and its `pull`."""

    url: str
    here: set[str] = field(default_factory=set)
    pulls: list[str] = field(default_factory=list)
    builds: dict[str, dict[str, str]] = field(default_factory=dict)
    pulled_bases: list[str] = field(default_factory=list)  # of builds that were to fetch their bases anew
    offline: bool = False

    def answer(self, method: str, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """Return the status and the content of an answer; lists are streams of objects."""
        match method, path.removeprefix("/"):
            case "GET", "_ping":
                return 200, {}
            case "GET", "version":
                return 200, {"ApiVersion": "1.41"}
            case "GET", "info":
                return 200, {"NCPU": 2, "SystemTime": "2026-01-01T00:00:00Z"}
            case "GET", "containers/json":
                return 200, {}
            case "POST", "images/create":
                return self._pull(query)
            case "POST", "build":
                return self._build(query)
        if found := re.fullmatch(r"/images/(.+)/json", path):
            there = found[1] in self.here
            image = {"Id": "sha256:" + "0" * 64, "Size": 1, "Config": {"Labels": {}}}
            return (200, image) if there else (404, {"message": f"No such image: {found[1]}"})
        return 200, {}

    def _pull(self, query: dict[str, str]) -> tuple[int, Any]:
        tag = query.get("tag", "")
        reference = query["fromImage"] + (("@" if tag.startswith("sha256:") else ":") + tag if tag else "")
        self.pulls.append(reference)
        if reference.startswith("quay.io/pypa/") and not self.offline:
            self.here.add(reference)
            return 200, [{"status": "done"}]
        return 404, {"message": f"pull access denied for {query['fromImage']}"}

    def _build(self, query: dict[str, str]) -> tuple[int, Any]:
        arguments = json.loads(query["buildargs"])
        self.builds[query["t"]] = arguments
        if query.get("pull", "") not in {"", "0", "False", "false"}:
            self.pulled_bases.append(query["t"])
        self.here.add(query["t"])
        return 200, [{"stream": "done\n"}]


@contextmanager
def running(here: set[str] | None = None) -> Iterator[Engine]:
    """Run an engine that has the images `here`; DOCKER_HOST is to be its `url`."""
    engine = Engine("", here or set())

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Be quiet."""

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            path = unquote(re.sub(r"^/v1\.\d+", "", parts.path))
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self._read()
            status, content = engine.answer(self.command, path, query)
            listing = path in {"/containers/json", "/images/json"}
            text = (
                "".join(json.dumps(each) + "\n" for each in content)
                if isinstance(content, list)
                else json.dumps([] if listing else content)
            )
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815  as BaseHTTPRequestHandler wants them

        def _read(self) -> None:
            if self.headers.get("Transfer-Encoding") != "chunked":
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                return
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        engine.url = f"tcp://127.0.0.1:{server.server_port}"
        yield engine
        server.shutdown()
