"""The connection to the container engine."""

from __future__ import annotations

import docker
import docker.errors

from gpuforge.errors import MissingError


def connect() -> docker.DockerClient:
    """Return a client of the engine that DOCKER_HOST names; raises MissingError when none answers."""
    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        raise MissingError.of(
            f"no container engine answers: {error}",
            hint="start Docker (Debian: apt-get install docker.io; dockerd) or set DOCKER_HOST to podman's socket",
        ) from None
    return client
