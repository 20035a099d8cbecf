"""Take a page apart, its files and its commands, so that tests run them as printed.

`python scripts/tutorial.py FOLDER` writes the files of the tutorial's finished package into FOLDER. `gpuforge build
FOLDER` then makes the wheel that tests/gpu/test_gpu_tutorial.py wants.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
_FENCE = re.compile(r"^(?:<!-- (\S+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WHOLE = re.compile(r"\*\*`([^`]+)`\*\*\n\Z")
_ADDED = re.compile(r"Add to `([^`]+)`:\n\Z")


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A file to write, or with `added` text to put at the end of one."""

    path: str
    text: str
    added: bool

    def write(self, folder: Path) -> None:
        """Write it below a folder."""
        file = folder / self.path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a" if self.added else "w") as stream:
            stream.write(self.text)


@dataclass(frozen=True, slots=True)
class ConsoleBlock:
    """Commands with what each prints; `machine` is "gpu" or "no-gpu" if a comment above the block says so, else ""."""

    machine: str
    commands: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text of a language that belongs into a file which the page does not name."""

    language: str
    text: str


def blocks(page: Path = PAGE) -> Iterator[FileBlock | ConsoleBlock | Snippet]:
    """Yield the blocks in the page's order."""
    text = page.read_text()
    for fence in _FENCE.finditer(text):
        machine, language, content = fence[1] or "", fence[2], fence[3]
        before = text[: fence.start()]
        if language == "console":
            yield ConsoleBlock(machine, tuple(_commands(content)))
        elif whole := _WHOLE.search(before):
            yield FileBlock(whole[1], content, added=False)
        elif added := _ADDED.search(before):
            yield FileBlock(added[1], content, added=True)
        else:
            yield Snippet(language, content)


def matches(printed: str, shown: str) -> bool:
    """Say whether a command printed what the page shows: `…` stands for anything, on a line of its own for lines."""
    lines = ("(?:.*\n)*" if line == "…\n" else re.escape(line) for line in shown.splitlines(keepends=True))
    return re.fullmatch("".join(lines).replace("…", ".*"), printed) is not None


def _commands(content: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


if __name__ == "__main__":
    for block in blocks():
        if isinstance(block, FileBlock):
            block.write(Path(sys.argv[1]))
