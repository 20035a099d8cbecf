"""Connects to the container engine: Docker, or Podman by its Docker-compatible socket."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import requests
from docker.context import ContextAPI
from docker.errors import DockerException

from gpuforge.containers.engine_errors import cause
from gpuforge.errors import MissingError

ANSWER_S = 600  # seconds that the engine may take for one request (making a container of a large image)
HOW = "start Docker (Debian: apt-get install docker.io; Fedora: dnf install podman; then systemctl start docker)"


def connect(environ: Mapping[str, str] | None = None) -> docker.DockerClient:
    """Return a client of the engine that `docker` would use, else of Podman's socket; the engine has responded.

    Looks at DOCKER_HOST (with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH), Docker's current context, Docker's
    usual socket, and Podman's of the user and of root. Raises MissingError with a hint on how to get one.
    """
    environ = os.environ if environ is None else environ
    refused = []
    for name, make in _candidates(environ):
        client: docker.DockerClient | None = None
        try:
            client = make()
            client.ping()
        except (DockerException, requests.RequestException, OSError, ValueError) as error:
            if client is not None:
                client.close()
            refused.append(f"{name}: {cause(error)}")
        else:
            return client
    raise MissingError.of(f"no container engine answers ({'; '.join(refused)})", hint=HOW)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    if environ.get("DOCKER_HOST"):  # the user's choice: no other engine is tried
        yield environ["DOCKER_HOST"], lambda: docker.from_env(environment=dict(environ), timeout=ANSWER_S)
        return
    urls = [_context_url(), "unix:///var/run/docker.sock"]
    if environ.get("XDG_RUNTIME_DIR"):
        urls += [
            f"unix://{environ['XDG_RUNTIME_DIR']}/{name}" for name in ("docker.sock", "podman/podman.sock")
        ]
    urls.append("unix:///run/podman/podman.sock")
    there = [url for url in dict.fromkeys(urls) if url and _may_be_there(url)]
    for url in there or ["unix:///var/run/docker.sock"]:
        yield url.removeprefix("unix://"), lambda url=url: docker.DockerClient(base_url=url, timeout=ANSWER_S)


def _context_url() -> str | None:
    try:
        context = ContextAPI.get_current_context()
        return context.Host if context else None
    except Exception:  # noqa: BLE001  a broken ~/.docker/config.json is docker's affair; the usual sockets remain
        return None


def _may_be_there(url: str) -> bool:
    return not url.startswith("unix://") or Path(url.removeprefix("unix://")).exists()
