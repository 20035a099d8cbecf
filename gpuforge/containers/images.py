"""The images of an engine, through the docker SDK."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import docker
from docker.errors import APIError, ImageNotFound

from gpuforge.containers import image_reference as references
from gpuforge.containers.container import Containers, ContainerSpec, Ran, labels, run_once
from gpuforge.containers.emulation import debian_name
from gpuforge.containers.engine import RefusedError, connect, engine_errors

IMAGE_LABEL = "dev.gpuforge.image"  # on every layer: the image that it belongs to
RELEASE_LABEL = "dev.gpuforge.release"  # sha256 of the InRelease file of an image's Debian release
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY")  # predefined arguments of every Dockerfile
_UNPACK_S = 3600  # the engine is silent while it unpacks an archive
_CLEAR_S = 30  # time for a cancelled build to end its container


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image that the engine has: its id ("sha256:…"), size in bytes and labels."""

    id: str
    size: int
    labels: Mapping[str, str] = field(default_factory=dict)


class Images:
    """`Images` of the engine that DOCKER_HOST names, or of the engine of a client."""

    def __init__(self, client: docker.DockerClient | None = None) -> None:
        self._client = client or connect()

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def find(self, reference: str) -> EngineImage | None:
        """Return the image of a reference, or None if the engine does not have it."""
        with engine_errors(f"to look for image {reference}"):
            try:
                image = self._client.images.get(reference)
            except ImageNotFound:
                return None
        return EngineImage(image.attrs["Id"], image.attrs["Size"], image.labels)

    def load(self, archive: BinaryIO, reference: str, labels: Mapping[str, str]) -> None:
        """Make an image of a root file system's tar, as one layer; raises ActionError if it fails."""
        repository, tag = references.split(reference)
        changes = [f'LABEL {name}="{value}"' for name, value in labels.items()]
        # In pieces: for a file, the SDK would send both a length and chunks.
        pieces = iter(lambda: archive.read(1 << 20), b"")
        seconds, self._client.api.timeout = self._client.api.timeout, _UNPACK_S
        try:
            with engine_errors(f"to make image {reference}"):
                answer = self._client.api.import_image_from_stream(
                    pieces, repository=repository, tag=tag, changes=[*changes, 'CMD ["/bin/bash"]']
                )
        finally:
            self._client.api.timeout = seconds
        if "error" in str(answer):
            raise RefusedError.saying(str(answer), f"to make image {reference}")

    def build(
        self, context: BinaryIO, reference: str, arguments: Mapping[str, str], network: str | None
    ) -> Iterator[str]:
        """Build the Dockerfile of a context's tar and yield its output; raises ActionError if it fails."""
        doing = f"to build image {reference}"
        with engine_errors(doing):
            self._clear(reference)  # of a gpuforge that was killed
        proxies = {n: v for name in _PROXIES for n in (name, name.lower()) if (v := os.environ.get(n))}
        try:
            with engine_errors(doing):
                answers = self._client.api.build(
                    fileobj=context,
                    custom_context=True,
                    tag=reference,
                    buildargs={**proxies, **arguments, "IMAGE": reference},
                    network_mode=network,
                    rm=True,
                    forcerm=True,
                    decode=True,
                )
                yield from _output(answers)
        finally:
            with engine_errors(doing):
                self._clear(reference)

    def pull(self, reference: str, machine: str) -> Iterator[str]:
        """Fetch an image of a machine type from its registry and yield the progress; raises ActionError if it fails."""
        references.refuse_pull(reference)
        with engine_errors(f"to pull image {reference}"):
            # Without a tag, the SDK would fetch all of them.
            tag = None if "@" in reference or references.split(reference)[1] else "latest"
            platform = f"linux/{debian_name(machine)}"
            answers = self._client.api.pull(reference, tag=tag, stream=True, decode=True, platform=platform)
            yield from _output(answers)

    def run(self, reference: str, argv: Sequence[str]) -> Ran:
        """Run a command to its end in a container of the image, without a network; the container is removed."""
        spec = ContainerSpec(reference, argv, labels("images"), keeps_output=True)
        return run_once(Containers(self._client), spec)

    def _clear(self, reference: str) -> None:
        """Remove the containers and the unnamed images of a build; a cancelled build continues for a moment."""
        ours: dict[str, str | list[str] | bool] = {"label": f"{IMAGE_LABEL}={reference}"}
        until = time.monotonic() + _CLEAR_S
        while time.monotonic() < until:
            containers = self._client.containers.list(all=True, filters=ours, ignore_removed=True)
            nameless = [] if containers else self._client.images.list(filters={**ours, "dangling": True})
            if not containers and not nameless:
                break
            for container in containers:
                with suppress(APIError):  # the engine itself is removing it, or has
                    container.remove(force=True)
            for image in nameless:  # with its unnamed parents; pruning removes one at a time
                with suppress(APIError):
                    self._client.api.remove_image(image.id or "")
            time.sleep(0.2)


def _output(answers: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of an engine's response; raises RefusedError with the line of an error."""
    with closing(answers):  # type: ignore[type-var]

        def texts() -> Iterator[str]:
            for answer in answers:
                if "error" in answer:
                    raise RefusedError.saying(str(answer["error"]).strip())
                if "stream" in answer:
                    yield answer["stream"]
                elif "status" in answer and "progress" not in answer:
                    yield f"{answer.get('id', '')} {answer['status']}\n".lstrip()

        yield from lines(texts())


def lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield whole lines of a text that arrives in pieces."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).replace("\r\n", "\n").split("\n")
        yield from whole
    if rest:
        yield rest
