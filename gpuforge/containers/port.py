"""What gpuforge asks of a container engine about images; tests have a twin of it in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

IMAGE_LABEL = "dev.gpuforge.image"  # every layer of an image says which one it belongs to
RELEASE_LABEL = "dev.gpuforge.release"  # sha256 of the Debian release's InRelease that an image began with


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image that the engine has: its id ("sha256:…"), size in bytes and labels."""

    id: str
    size: int
    labels: Mapping[str, str] = field(default_factory=dict)


class Images(Protocol):
    """The images of one engine. Every method raises MissingError when the engine does not answer."""

    def find(self, reference: str) -> EngineImage | None:
        """Return the image of a reference, or None when the engine does not have it."""

    def load(self, archive: BinaryIO, reference: str, labels: Mapping[str, str]) -> None:
        """Make an image of a root file system's tar, as one layer; raises ActionError when it cannot."""

    def build(
        self, context: BinaryIO, reference: str, arguments: Mapping[str, str], network: str | None
    ) -> Iterator[str]:
        """Build the Dockerfile of a context's tar and yield what it says; raises ActionError when it fails.

        Whatever way it ends, closing the iterator included, no image and no container without a name is left.
        """

    def pull(self, reference: str) -> Iterator[str]:
        """Fetch an image from its registry and yield what is said; raises ActionError when it cannot be had."""

    def run(self, reference: str, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command in a container of the image without a network; return its exit status and output."""


def lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield whole lines of a text that arrives in pieces."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).replace("\r\n", "\n").split("\n")
        yield from whole
    if rest:
        yield rest
