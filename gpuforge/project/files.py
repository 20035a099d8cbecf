"""Reads the files of a project within limits; links are not followed."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpuforge import tree
from gpuforge.errors import ActionError
from gpuforge.plan.source_files import LEFT_OUT, LEFT_OUT_AT_TOP

MOST_FILES = 100_000
LARGEST = 1 << 20  # bytes that are read of one file; the rest is ignored
MOST_BYTES = 256 << 20  # of all files together
# Folders that the build of a wheel seldom reads.
_ASIDE = re.compile(
    r"tests?|testing|docs?|examples?|bench|benchmarks?|perftest|tutorials?|matlab|fortran|conda(-recipe)?|ci|tools|devel"
)


class Where(NamedTuple):
    """A place in a project; line 0 is the whole file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        """Write `setup.py:12`."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Seen(NamedTuple):
    """A text in a project's file, and its place."""

    text: str
    where: Where


class Files:
    """The files of one project by name, relative to its root."""

    def __init__(self, root: Path) -> None:
        """List the files; raises ActionError for more than `MOST_FILES`, OSError for those that cannot be read."""
        self.root = root
        self.names: frozenset[str] = frozenset(self._list())
        self._left = MOST_BYTES
        self._texts: dict[str, str] = {}

    def _list(self) -> Iterator[str]:
        def leaves_out(entry: tree.TreeEntry) -> bool:
            folder, _, name = entry.path.rpartition("/")
            return name in LEFT_OUT or (not folder and name in LEFT_OUT_AT_TOP)

        for count, entry in enumerate(tree.walk(self.root, leaves_out)):
            if count == MOST_FILES:
                raise ActionError.of(
                    f"{self.root} has more than {MOST_FILES:,} files",
                    hint="name the folder of one project, with its pyproject.toml or setup.py",
                )
            if not entry.is_folder and not entry.link:
                yield entry.path

    def text(self, name: str) -> str:
        """Return the beginning of a file as text; "" for a file that is not there or cannot be read."""
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> str:
        if name not in self.names or self._left <= 0:
            return ""
        try:
            content = tree.read(self.root, name, min(LARGEST, self._left))
        except OSError:
            return ""
        self._left -= len(content)
        return content.decode("utf-8-sig", "replace").replace("\r\n", "\n")

    def ending(self, *suffixes: str) -> list[str]:
        """Return the files with one of these suffixes that the build of a wheel may read, sorted."""
        found = [name for name in self.names if name.lower().endswith(suffixes)]
        return sorted(
            name for name in found if not any(map(_ASIDE.fullmatch, PurePosixPath(name.lower()).parts[:-1]))
        )

    @cached_property
    def modules(self) -> dict[str, set[str]]:
        """The folders ("" is the root) that have a Python module or package, by its name."""
        folders: dict[str, set[str]] = {}
        for file in self.names:
            path, dot, end = file.rpartition(".")
            folder, _, name = path.removesuffix("/__init__").rpartition("/")
            if dot and end == "py":
                folders.setdefault(name, set()).add(folder)
        return folders
