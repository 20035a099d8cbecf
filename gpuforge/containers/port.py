"""The port to a container engine: its images and its containers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

IMAGE_LABEL = "dev.gpuforge.image"  # on every layer: the image that it belongs to
RELEASE_LABEL = "dev.gpuforge.release"  # sha256 of the InRelease file of an image's Debian release


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image that the engine has: its id ("sha256:…"), size in bytes and labels."""

    id: str
    size: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended in a container: its exit status and its output to stdout and to stderr."""

    status: int
    output: str
    errors: str = ""

    @property
    def reason(self) -> str:
        """The last line of a command that failed, or its exit status."""
        return (self.errors or self.output).strip().rpartition("\n")[2] or f"exit status {self.status}"


class Images(Protocol):
    """The images of one engine. Every method raises MissingError if the engine does not respond."""

    def find(self, reference: str) -> EngineImage | None:
        """Return the image of a reference, or None if the engine does not have it."""

    def load(self, archive: BinaryIO, reference: str, labels: Mapping[str, str]) -> None:
        """Make an image of a root file system's tar, as one layer; raises ActionError if it fails."""

    def build(
        self, context: BinaryIO, reference: str, arguments: Mapping[str, str], network: str | None
    ) -> Iterator[str]:
        """Build the Dockerfile of a context's tar and yield its output; raises ActionError if it fails.

        At any end, also if the iterator is closed, no unnamed image or container is left.
        """

    def pull(self, reference: str) -> Iterator[str]:
        """Fetch an image from its registry and yield the progress; raises ActionError if it fails."""

    def run(self, reference: str, argv: Sequence[str]) -> Ran:
        """Run a command to its end in a container of the image, without a network; the container is removed."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine (`source`) and its path in a container (`target`)."""

    source: Path
    target: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container to make. By default it has no network, and never more rights than a normal user.

    `image` is an id or a reference, `image_name` its name for people. The user is the image's own or, with `as_caller`,
    the user of gpuforge. `network` is this machine's. `memory` is in bytes, `pids` counts processes and threads.
    """

    image: str
    argv: Sequence[str]
    labels: Mapping[str, str]
    image_name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    mounts: Sequence[Mount] = ()
    as_caller: bool = False
    network: bool = False
    gpus: bool = False
    keeps_output: bool = False  # for `Container.read` after its end
    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """The end of a container; `status` is that of a process: negative for the signal that ended it."""

    status: int
    out_of_memory: bool = False


class ContainerOutput(Protocol):
    """The output of a container, in pieces."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces as they come."""

    def close(self) -> None:
        """Stop reading."""


class Container(Protocol):
    """A container that was made. Every method raises the errors of `engine_errors`."""

    @property
    def id(self) -> str:
        """Its id."""

    def attach(self) -> ContainerOutput:
        """Return its output as it comes; call it before `start`."""

    def start(self) -> None:
        """Start its command."""

    def wait(self) -> ContainerEnd:
        """Wait for its end. A container that was removed counts as ended by SIGKILL."""

    def read(self) -> Ran:
        """Wait for the end of a container that keeps its output, and return all of it."""

    def remove(self) -> None:
        """Remove it, ended or not; no error if it is gone already."""


@dataclass(frozen=True, slots=True)
class LabelledContainer:
    """A container of the engine, of any process; `age` in seconds since it was made."""

    id: str
    labels: Mapping[str, str]
    age: float


class Containers(Protocol):
    """The containers of one engine, by one client. A client is for one thread."""

    def create(self, spec: ContainerSpec) -> Container:
        """Make a container; raises MissingError if its image is gone."""

    def labelled(self, label: str) -> list[LabelledContainer]:
        """Return the containers with a label, ended or not."""

    def signal(self, container: str, name: str) -> None:
        """Send a signal ("SIGTERM") to a container, by its id; it is not an error if it has ended or is gone."""

    def remove(self, container: str) -> bool:
        """Remove a container by its id; return False if it was gone already."""

    def close(self) -> None:
        """End the connection."""


def lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield whole lines of a text that arrives in pieces."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).replace("\r\n", "\n").split("\n")
        yield from whole
    if rest:
        yield rest
