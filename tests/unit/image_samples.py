"""An engine's images in memory, for tests of what makes and checks them."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from gpuforge.containers import catalog
from gpuforge.containers.container import Ran
from gpuforge.containers.images import EngineImage
from gpuforge.errors import ActionError


def reference(name: str) -> str:
    image = catalog.find(name)
    assert image is not None
    return image.reference


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

    def pull(self, reference: str, machine: str) -> Iterator[str]:
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


def python(folder: str, version: str, **more: Any) -> list[Any]:
    facts = {"version": version, "implementation": "CPython", "abi": "", "zlib": "1.2.13", "headers": True}
    path = f"/opt/python/{folder}/bin/python3"
    return [path, facts | {"executable": path, "venv": True, "pip": True} | more]


def gxx(path: str, version: str) -> list[str]:
    return [path, f"g++ (Debian {version}) {version}\nCopyright (C) Free Software Foundation, Inc.\n"]


def nvcc(version: str) -> list[str]:
    minor = ".".join(version.split(".")[:2])
    return ["/usr/local/cuda/bin/nvcc", f"Cuda compilation tools, release {minor}, V{version}\n"]


BOOKWORM: Mapping[str, Any] = {
    "machine": "x86_64",
    "glibc": "2.36",
    "pythons": [
        python("cp311-cp311", "3.11.2"),
        python("cp313-cp313", "3.13.5"),
        python("cp39-cp39", "3.13.5"),
    ],
    "compilers": [gxx("/usr/bin/g++", "12.2.0"), gxx("/usr/bin/g++-11", "11.3.0")],
    "toolkits": {},
    "path": "/usr/bin",
}


def without_engine(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program where no engine answers, in a process of its own: the SDK leaves its sockets open then."""
    code = "from gpuforge.cli.main import main; main()"
    env = {**os.environ, "DOCKER_HOST": f"unix://{folder}/none.sock"}
    argv = [sys.executable, "-c", code, "images", *arguments]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
