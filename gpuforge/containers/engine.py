"""The container engine, Docker or Podman by its Docker-compatible socket: its connection and its errors."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import docker
import requests
from docker.context import ContextAPI
from docker.errors import APIError, DockerException

from gpuforge.errors import ActionError, MissingError

ANSWER_S = 600  # seconds that the engine may take for one request (making a container of a large image)
HOW = "start Docker (Debian: apt-get install docker.io; Fedora: dnf install podman; then systemctl start docker)"
_HINTS = (
    (
        "bind source path does not exist",
        "the engine sees other folders than this process: set GPUFORGE_CACHE_DIR and GPUFORGE_WORK to shared ones",
    ),
    ("no space left", "the disk of the engine is full: make room (docker system df)"),
    ("inimum memory limit", "allow more by --memory"),
    (
        "container-init binary not found",
        "install what Podman runs as its containers' init (Debian: apt-get install catatonit)",
    ),
    (
        "select device driver",
        "install the NVIDIA Container Toolkit and restart the engine, or leave --gpu out",
    ),
)
_CAUSES = (
    ("No such file", "there is no such socket"),
    ("Connection refused", "nothing listens there"),
    ("Permission denied", "you may not use it (be in the group docker, or be root)"),
    ("imed out", "no answer in time"),
)
# The messages of a container's init if it cannot start the program: Docker's (tini) and Podman's (catatonit).
_NOT_STARTED = re.compile(
    r"\[FATAL +tini \(\d+\)\] exec .* failed: (.+)|ERROR \(catatonit:\d+\): failed to exec pid1: (.+)"
)


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
    there = [
        url
        for url in dict.fromkeys(urls)
        if url and (not url.startswith("unix://") or Path(url.removeprefix("unix://")).exists())
    ]
    for url in there or ["unix:///var/run/docker.sock"]:
        yield url.removeprefix("unix://"), lambda url=url: docker.DockerClient(base_url=url, timeout=ANSWER_S)


def _context_url() -> str | None:
    try:
        context = ContextAPI.get_current_context()
        return context.Host if context else None
    except Exception:  # noqa: BLE001  a broken ~/.docker/config.json is docker's affair; the usual sockets remain
        return None


class RefusedError(ActionError):
    """The engine reported an error; `answer` is its own text."""

    answer: str = ""

    @classmethod
    def saying(cls, answer: str, doing: str = "") -> Self:
        """Make the error with the engine's own text, for an action that it refused."""
        hint = next((hint for sign, hint in _HINTS if sign in answer), "") if doing else ""
        error = cls.of(f"the container engine failed {doing}: {answer}" if doing else answer, hint=hint)
        error.answer = answer
        return error


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn the errors of the SDK while `doing` something into RefusedError, or MissingError if no engine responds."""
    try:
        yield
    except APIError as error:
        raise RefusedError.saying(str(error.explanation or error), doing) from error
    except (DockerException, requests.RequestException) as error:
        raise MissingError.of(
            f"the container engine no longer answers ({doing}): {cause(error)}",
            hint="start it again and run the same command: finished work is kept",
        ) from error


def cause(error: Exception) -> str:
    """Return why no engine responds, in a few words."""
    text = str(error)
    known = next((why for sign, why in _CAUSES if sign in text), "")
    return known or (text.splitlines()[0] if text else type(error).__name__)


def not_started(output: str) -> str:
    """Return why a container's program could not be started, from the end of its output; "" if it was."""
    found = _NOT_STARTED.search(output)
    return (found[1] or found[2]) if found else ""
