"""The container engine: Docker, or Podman by its Docker-compatible socket. The only place that imports docker."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import docker.types
import requests
from docker.context import ContextAPI
from docker.errors import APIError, ContainerError, DockerException, ImageNotFound, NotFound

from gpuforge.errors import ActionError, MissingError

ANSWER_S = 600  # seconds that the engine may take to answer one request (making a container of a large image)
HOW = (
    "start Docker (Debian: apt-get install docker.io; Fedora: dnf install podman; then systemctl start docker), "
    "or build with local processes: --runner local"
)
_HINTS = (
    (
        "bind source path does not exist",
        "the engine sees other folders than this process: set GPUFORGE_CACHE_DIR and GPUFORGE_WORK to ones it has",
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

__all__ = [
    "APIError",
    "DockerException",
    "ImageNotFound",
    "NotFound",
    "caller",
    "connect",
    "every_gpu",
    "limits_memory",
    "not_started",
    "run_once",
    "told",
]


def connect(environ: Mapping[str, str] | None = None) -> docker.DockerClient:
    """Return a client of the engine that `docker` would use, else of Podman's socket; one that has answered.

    Looks at DOCKER_HOST (with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH), Docker's current context, Docker's
    usual socket, and Podman's of the user and of root. Raises MissingError, which says how to get one.
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
            refused.append(f"{name}: {_cause(error)}")
        else:
            return client
    raise MissingError.of(f"no container engine answers ({'; '.join(refused)})", hint=HOW)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    if environ.get("DOCKER_HOST"):  # said by hand: nothing else is meant
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


def _cause(error: Exception) -> str:
    text = str(error)
    for sign, cause in (
        ("No such file", "there is no such socket"),
        ("Connection refused", "nothing listens there"),
        ("Permission denied", "you may not use it (be in the group docker, or be root)"),
        ("imed out", "no answer in time"),
    ):
        if sign in text:
            return cause
    return text.splitlines()[0] if text else type(error).__name__


def every_gpu() -> docker.types.DeviceRequest:
    """Return what hands a container all GPUs of the machine, as `docker run --gpus all` does."""
    return docker.types.DeviceRequest(count=-1, capabilities=[["gpu"]])


def caller(client: docker.DockerClient) -> dict[str, str]:
    """Return the options by which a container's user is the caller, who can write what the caller can.

    Where the engine itself runs without root, its containers' root is the caller.
    """
    info = client.info()
    security = " ".join(info.get("SecurityOptions") or [])
    if "name=rootless" in security or info.get("Rootless"):  # Docker's word for it, and Podman's
        return {"user": "0:0"}
    user = {"user": f"{os.geteuid()}:{os.getegid()}"}
    return user | ({"userns_mode": "host"} if "name=userns" in security else {})


def limits_memory(client: Any) -> bool:
    """Say whether the engine holds a container to an amount of memory: one without root needs cgroup v2 for it."""
    info = client.info()
    # Podman says so even where it does not (podman-run(1): not on cgroup v1 without root).
    return bool(info.get("MemoryLimit", True)) and not (
        info.get("Rootless") and info.get("CgroupVersion") == "1"
    )


def run_once(client: Any, image: str, **options: Any) -> bytes:
    """Run a container to its end and return what it wrote to stdout; it is removed also if it could not be started.

    `options` are those of the SDK's `containers.create`. Raises ContainerError with what it wrote to stderr when it
    ended with another status than 0.
    """
    container = client.containers.create(image, log_config={"type": "json-file"}, **options)
    try:
        container.start()
        status = container.wait()["StatusCode"]
        if status:
            said = container.logs(stdout=False, stderr=True).decode(errors="replace")
            raise ContainerError(container, status, options.get("command"), image, said)
        return bytes(container.logs(stdout=True, stderr=False))
    finally:
        with suppress(DockerException, OSError):
            container.remove(force=True, v=True)


# What the init of a container says of a program that it cannot start: Docker's (tini) and Podman's (catatonit).
_NOT_STARTED = re.compile(
    r"\[FATAL +tini \(\d+\)\] exec .* failed: (.+)|ERROR \(catatonit:\d+\): failed to exec pid1: (.+)"
)


def not_started(said: str) -> str:
    """Return why a container's program could not be started, from the end of its output; "" if it was."""
    found = _NOT_STARTED.search(said)
    return (found[1] or found[2]) if found else ""


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Turn what the engine answers while `doing` something into an ActionError, or MissingError when it is gone."""
    try:
        yield
    except ContainerError as error:
        lines = str(error.stderr or "").strip().splitlines()
        why = lines[-1] if lines else f"exit status {error.exit_status}"
        raise ActionError.of(f"a container failed {doing}: {why}") from error
    except APIError as error:
        said = error.explanation or str(error)
        hint = next((hint for sign, hint in _HINTS if sign in str(said)), "")
        raise ActionError.of(f"the container engine failed {doing}: {said}", hint=hint) from error
    except (DockerException, requests.RequestException) as error:
        raise MissingError.of(
            f"the container engine no longer answers ({doing}): {_cause(error)}",
            hint="start it again and run the same command: what is finished is kept",
        ) from error
