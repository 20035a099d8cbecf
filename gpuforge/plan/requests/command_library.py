"""The request for a library that a command of the manifest makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True, kw_only=True)
class CommandLibrary(Request):
    """Make one library by a command line, and check its ABI id."""

    program: ClassVar[str] = "command_library"
    filled: ClassVar[tuple[str, ...]] = ("argv",)
    name: str
    argv: tuple[str, ...]
    product: str = ""  # a pattern in the folder that the command runs in; "": it writes `made`
    made: Path
    abi: str
    packages: Mapping[str, str] = field(default_factory=dict)
    abi_file: Path  # the C file to write, which the command links in
    runtime: Path  # a folder with the runtime's abi.c, abi_id.py and elf.py, and what they import
    environment: Path
    python: Path
    scratch: Path
    output: Path
