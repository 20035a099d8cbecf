"""The images of a Docker engine, or of podman's socket, through the docker SDK."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, BinaryIO

import requests

from gpuforge.containers import reference as references
from gpuforge.containers.connect import connect
from gpuforge.containers.leftovers import labels
from gpuforge.containers.port import IMAGE_LABEL, EngineImage, lines
from gpuforge.errors import ActionError, MissingError

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY")  # predefined arguments of every Dockerfile
_UNPACK_S = 3600  # nothing is said until an archive is unpacked
_CLEAR_S = 30  # how long a cancelled build may take to end its container


class DockerImages:
    """What `Images` asks for, of the engine that DOCKER_HOST names."""

    def __init__(self) -> None:
        self._client = connect()

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def find(self, reference: str) -> EngineImage | None:
        """Return the image of a reference, or None when the engine does not have it."""
        with _answers():
            try:
                image = self._client.images.get(reference)
            except requests.HTTPError as error:
                if error.response is not None and error.response.status_code == requests.codes.not_found:
                    return None
                raise
        return EngineImage(image.attrs["Id"], image.attrs["Size"], image.labels)

    def load(self, archive: BinaryIO, reference: str, labels: Mapping[str, str]) -> None:
        """Make an image of a root file system's tar, as one layer; raises ActionError when it cannot."""
        repository, _, tag = reference.rpartition(":")
        changes = [f'LABEL {name}="{value}"' for name, value in labels.items()]
        # In pieces: of a file, the SDK would send a length and chunks at once.
        pieces = iter(lambda: archive.read(1 << 20), b"")
        seconds, self._client.api.timeout = self._client.api.timeout, _UNPACK_S
        try:
            with _answers():
                said = self._client.api.import_image_from_stream(
                    pieces, repository=repository, tag=tag, changes=[*changes, 'CMD ["/bin/bash"]']
                )
        finally:
            self._client.api.timeout = seconds
        if "error" in str(said):
            raise ActionError.of(f"the container engine did not take the base image: {said}")

    def build(
        self, context: BinaryIO, reference: str, arguments: Mapping[str, str], network: str | None
    ) -> Iterator[str]:
        """Build the Dockerfile of a context's tar and yield what it says; raises ActionError when it fails."""
        with _answers():
            self._clear(reference)  # what a gpuforge that was killed has left
        proxies = {n: v for name in _PROXIES for n in (name, name.lower()) if (v := os.environ.get(n))}
        try:
            with _answers():
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
                yield from _told(answers)
        finally:
            with _answers():
                self._clear(reference)

    def pull(self, reference: str) -> Iterator[str]:
        """Fetch an image from its registry and yield what is said; raises ActionError when it cannot be had."""
        references.refuse_pull(reference)
        with _answers():
            yield from _told(self._client.api.pull(reference, stream=True, decode=True))

    def run(self, reference: str, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command in a container of the image without a network; return its exit status and output."""
        with _answers():
            container = self._client.containers.create(
                reference,
                list(argv),
                entrypoint=[],
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                labels=labels("images"),
            )
            try:
                container.start()
                status = int(container.wait()["StatusCode"])
                return status, container.logs().decode(errors="replace")
            finally:
                container.remove(force=True)

    def _clear(self, reference: str) -> None:
        """Remove the containers and the nameless images of a build; a cancelled one goes on for a moment."""
        ours: dict[str, str | list[str] | bool] = {"label": f"{IMAGE_LABEL}={reference}"}
        until = time.monotonic() + _CLEAR_S
        while time.monotonic() < until:
            containers = self._client.containers.list(all=True, filters=ours, ignore_removed=True)
            nameless = [] if containers else self._client.images.list(filters={**ours, "dangling": True})
            if not containers and not nameless:
                break
            for container in containers:
                with suppress(requests.HTTPError):  # the engine itself is removing it, or has
                    container.remove(force=True)
            for image in nameless:  # with its nameless parents; the engine's prune would be one at a time
                with suppress(requests.HTTPError):
                    self._client.api.remove_image(image.id or "")
            time.sleep(0.2)


def _told(answers: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of an engine's answer; raises ActionError with the one that says what went wrong."""
    with closing(answers):  # type: ignore[type-var]

        def texts() -> Iterator[str]:
            for answer in answers:
                if "error" in answer:
                    raise ActionError.of(str(answer["error"]).strip())
                if "stream" in answer:
                    yield answer["stream"]
                elif "status" in answer and "progress" not in answer:
                    yield f"{answer.get('id', '')} {answer['status']}\n".lstrip()

        yield from lines(texts())


@contextmanager
def _answers() -> Iterator[None]:
    """Turn what the SDK and its HTTP library raise into one clear message."""
    try:
        yield
    except requests.HTTPError as error:  # the SDK's own errors are of this kind
        raise ActionError.of(
            f"the container engine refused: {getattr(error, 'explanation', '') or error}"
        ) from None
    except requests.RequestException as error:
        raise MissingError.of(
            f"the container engine went away: {error}",
            hint="see its log (journalctl -u docker), then try again",
        ) from None
