"""The requests for the test of a finished wheel."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True, kw_only=True)
class FetchTestRequirements(Request):
    """Fill the folder `output` with wheels: of `requires`, and of what `wheel` declares."""

    program: ClassVar[str] = "fetch_test_requirements"
    python: Path
    requires: tuple[str, ...] = ()  # what the tests need
    wheel: Path | None = None  # the wheel, one of its metadata alone, or the folder that holds it
    extras: tuple[str, ...] = ()  # the wheel's extras to install
    cuda: str = ""  # the CUDA version that it is for: its extra is fetched, too
    at_hand: tuple[Path, ...] = ()  # folders of wheels: what lies there already is left out
    own: Path | None = None  # folder of the wheel's own kernels wheel, which no index has
    output: Path


@dataclass(frozen=True, kw_only=True)
class TryWheel(Request):
    """Install a wheel as users do, import it, run the manifest's test command; `result` gets the outcome."""

    program: ClassVar[str] = "try_wheel"
    cell: str  # what messages call the wheel
    wheel: Path  # the wheel, or a folder with nothing else
    python: Path
    wheels: tuple[Path, ...] = ()  # folders of the wheels that it needs
    extras: tuple[str, ...] = ()  # to install it with
    cuda: str = ""  # the CUDA version that it is for: its extra is tried, too
    package: str  # the import package
    imports: tuple[str, ...] = ()  # further modules to import
    stub: bool = True  # import them with a stub of the driver
    requires: tuple[str, ...] = ()  # what the command needs beside the wheel
    command: tuple[str, ...] = ()  # words, in which {project} is filled in
    project: Path | None = None  # the source tree
    folder: Path | None = None  # where the command runs; default: an empty folder
    toolkit: Path | None = None  # the toolkit of the machine that the wheel is meant for
    scratch: Path
    result: Path
