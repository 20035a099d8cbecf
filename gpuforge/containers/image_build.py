"""Makes images that the engine does not have: base, further Pythons, the image itself; each once, by content."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from gpuforge.containers import build_context, debootstrap, stages
from gpuforge.containers import image_reference as references
from gpuforge.containers.build_log import Log
from gpuforge.containers.catalog import CatalogImage
from gpuforge.containers.image_table import DebianRelease
from gpuforge.containers.port import Images
from gpuforge.containers.stages import Stage
from gpuforge.errors import ActionError, GpuforgeError, MissingError

Show = Callable[[str], object]
_HINTS = (  # output of the engine or apt for a correct definition -> the error and the hint
    (
        r"[Nn]o space left on device|disk quota",
        MissingError,
        "the engine's disk is full: free some space (docker system df shows what takes it), then try again",
    ),
    (
        r"Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Failed to fetch"
        r"|Couldn't download|Failed getting release file|Network is unreachable|no such host|i/o timeout",
        MissingError,
        "check the network of this machine and of its containers (--network host lets a build use this machine's "
        "own); behind a proxy set HTTP_PROXY; GPUFORGE_DEBIAN_MIRROR names another mirror",
    ),
)


@dataclass(frozen=True, slots=True)
class MadeImage:
    """An image that exists now, and whether it was made just now."""

    image: CatalogImage
    new: bool


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """The resources for making images: an engine, a folder of gpuforge, and functions that show progress.

    `show` gets a line for each step, `show_output` the last lines of a failed step. `network` is the engine's network
    for builds; None for the engine's default.
    """

    images: Images
    cache: Path
    show: Show
    show_output: Show
    network: str | None = None

    def make(self, image: CatalogImage) -> MadeImage:
        """Make or pull an image unless the engine has it.

        Nothing unfinished is left if it fails or is interrupted. Raises MissingError if this machine lacks something,
        ActionError if a step fails; each names the log.
        """
        if self.images.find(image.reference):
            return MadeImage(image, new=False)
        with self._alone(), Log(self._log(image), self.show) as log, _explained(image, log, self.show_output):
            if self.images.find(image.reference):  # another process made it meanwhile
                return MadeImage(image, new=False)
            stage = stages.stage_of(image.name, image.machine)
            if stage:
                self._make(stage, log)
            else:
                log.step(f"pull {image.reference}")
                for line in self.images.pull(image.reference):
                    log.write(line)
        return MadeImage(image, new=True)

    def _make(self, stage: Stage, log: Log) -> str:
        """Return the reference of a stage; it and the stages below it are made if they are missing."""
        reference = stage.reference
        if self.images.find(reference):
            return reference
        arguments = dict(stage.arguments)
        arguments["BASE"] = self._base(stage.base, log)
        if stage.cpython:
            arguments["CPYTHON"] = self._make(stage.cpython, log)
        with self._scratch(stage.name) as scratch:
            build_context.fill(stage, scratch / "context", log)
            log.step(f"build {reference}")
            with build_context.pack(scratch / "context", scratch / "context.tar") as packed:
                for line in self.images.build(packed, reference, arguments, self.network):
                    log.write(line)
        return reference

    def _base(self, base: DebianRelease | Stage | str, log: Log) -> str:
        """Return the reference of a stage's base, made or pulled if it is missing."""
        if isinstance(base, Stage):
            return self._make(base, log)
        if isinstance(base, DebianRelease):
            with self._scratch(f"debian-{base.suite}") as scratch:
                return debootstrap.base(base, self.images, scratch, log)
        if not self.images.find(base):
            log.step(f"pull {base}")
            for line in self.images.pull(base):
                log.write(line)
        return base

    def _log(self, image: CatalogImage) -> Path:
        tag = references.split(image.reference)[1][:12]
        return self.cache / "logs" / f"image-{image.name}-{tag}.log"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time make images, and remove leftovers of a killed one."""
        folder = self.cache / "images"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            self.show("waiting for another gpuforge that makes images")
            lock.acquire()
        try:
            for left in folder.glob("*.partial"):
                shutil.rmtree(left)
            yield
        finally:
            lock.release()

    @contextmanager
    def _scratch(self, name: str) -> Iterator[Path]:
        folder = self.cache / "images" / f"{name}.partial"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


@contextmanager
def _explained(image: CatalogImage, log: Log, show_output: Show) -> Iterator[None]:
    """Show the end of the log of a failure, name the log, and add a hint for a known cause."""
    try:
        yield
    except GpuforgeError as error:
        for line in log.tail:
            show_output(line)
        cause = error.diagnostics[0]
        seen = "\n".join([*log.tail, cause.message])
        kind, hint = type(error), cause.hint
        for sign, known, advice in _HINTS:
            if not hint and re.search(sign, seen):
                kind, hint = known, advice
                break
        known_as = f"{image.name} was not made: {cause.message}"
        raise kind.of(known_as, hint="; ".join(filter(None, [hint, f"log: {log.path}"]))) from None
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space, or set GPUFORGE_CACHE_DIR to another disk; " if full else ""
        kind = MissingError if full else ActionError
        raise kind.of(f"{image.name} was not made: {error}", hint=f"{hint}log: {log.path}") from error
