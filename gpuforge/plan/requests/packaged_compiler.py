"""The requests for compilers that come from a package of the index."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True, kw_only=True)
class FetchCompilerPackage(Request):
    """Fetch a compiler's package, and what it requires, as wheels into the folder `output`.

    `lock` gets the name and the sha256 of each wheel.
    """

    program: ClassVar[str] = "fetch_compiler_package"
    toolchain: str  # the manifest's name of it, for messages
    requires: tuple[str, ...]
    python: Path
    output: Path
    lock: Path


@dataclass(frozen=True, kw_only=True)
class PackagedCompile(Request):
    """Run one command of a packaged compiler in its environment; it writes `output`.

    `{python}` in the command is the environment's interpreter.
    """

    program: ClassVar[str] = "packaged_compile"
    filled: ClassVar[tuple[str, ...]] = ("argv",)
    compiler: str
    argv: tuple[str, ...]
    environment: Path
    python: Path
    scratch: Path
    output: Path
