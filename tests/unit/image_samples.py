"""An engine's images in memory, for tests of what makes and checks them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from gpuforge.containers.container import Ran
from gpuforge.containers.images import EngineImage
from gpuforge.errors import ActionError


@dataclass
class MemoryImages:
    """`Images` in memory; keeps what it was given. `says` is what builds and runs
    print, `fails` how builds end, `status` how runs do."""

    here: dict[str, EngineImage] = field(default_factory=dict)
    says: Sequence[str] = ()
    fails: BaseException | None = None
    contexts: dict[str, dict[str, bytes]] = field(default_factory=dict)
    arguments: dict[str, Mapping[str, str]] = field(default_factory=dict)
    networks: list[str | None] = field(default_factory=list)
    status: int = 0

    def find(self, reference: str) -> EngineImage | None:
        return self.here.get(reference)

    def load(self, archive: BinaryIO, reference: str, labels: Mapping[str, str]) -> None:
        self._add(reference, labels)

    def build(
        self, context: BinaryIO, reference: str, arguments: Mapping[str, str], network: str | None
    ) -> Iterator[str]:
        with tarfile.open(fileobj=io.BytesIO(context.read())) as archive:
            members = {m.name.removeprefix("./"): archive.extractfile(m) for m in archive if m.isfile()}
            self.contexts[reference] = {name: stream.read() for name, stream in members.items() if stream}
        self.arguments[reference] = arguments
        self.networks.append(network)
        yield from self._output()
        self._add(reference, {})

    def pull(self, reference: str) -> Iterator[str]:
        yield from self._output()
        self._add(reference, {})

    def run(self, reference: str, argv: Sequence[str]) -> Ran:
        if reference not in {image.id for image in self.here.values()}:
            raise ActionError.of(f"no image {reference}")
        text = "\n".join(self.says)
        return Ran(self.status, "", text) if self.status else Ran(0, text)

    def _output(self) -> Iterator[str]:
        yield from self.says
        if self.fails:
            raise self.fails

    def _add(self, reference: str, labels: Mapping[str, str]) -> None:
        self.here[reference] = EngineImage(f"sha256:{len(self.here):064x}", 123_456_789, labels)
