"""The CUDA libraries that the processes of a test had in memory: each writes its /proc/self/maps as it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuforge import tree
from gpuforge.cuda import libraries
from gpuforge.errors import ActionError
from gpuforge.plan.trial_result import LoadedCuda, Place

# Run by every Python of the environment as it starts: https://docs.python.org/3/library/site.html
_HOOK = """\
import atexit, os


def _record(folder={folder!r}, os=os, open=open):
    try:
        with open("/proc/self/maps", errors="surrogateescape") as maps:
            files = sorted({{line.split(None, 5)[5] for line in maps if ".so" in line}})
        with open(os.path.join(folder, str(os.getpid())), "a", errors="surrogateescape") as record:
            record.writelines(files)
    except OSError:
        pass


atexit.register(_record)
"""


# Limits of the files with loaded libraries; the project's tests can write there, too.
_MOST_RECORDS, _LONGEST_RECORD = 10_000, 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class LoadWatch:
    """The libraries that the Pythons of one environment loaded, each in a file in `folder`."""

    environment: Path
    toolkit: Path | None
    folder: Path

    def judged(self, what: str) -> tuple[LoadedCuda, ...]:
        """Return the CUDA libraries that were loaded so far.

        Raises ActionError for a library from elsewhere; `what` names the program that loaded them.
        """
        if strange := self.elsewhere():
            names = ", ".join(f"{path.name} from {path.parent}" for path in strange[:3])
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            raise ActionError.of(
                f"{what} loaded {names}{more}: CUDA of this machine, which users may not have",
                hint=advice(strange[0].name),
            )
        return tuple(found for path in self._loaded() for found in self._place(path))

    def elsewhere(self) -> list[Path]:
        """Return the libraries that lie neither in the environment nor in the toolkit."""
        return [path for path in self._loaded() if not list(self._place(path))]

    def _place(self, path: Path) -> Iterator[LoadedCuda]:
        places: tuple[tuple[Place, Path | None], ...] = (
            ("environment", self.environment),
            ("toolkit", self.toolkit),
        )
        for name, place in places:
            if place and path.is_relative_to(place.resolve()):
                yield LoadedCuda(library=path.name, place=name, path=str(path.relative_to(place.resolve())))
                return

    def _loaded(self) -> tuple[Path, ...]:
        names = sorted(path.name for path in self.folder.iterdir())[:_MOST_RECORDS]
        texts = [os.fsdecode(tree.read(self.folder, name, _LONGEST_RECORD)) for name in names]
        lines = {line.removesuffix(" (deleted)") for text in texts for line in text.splitlines()}
        paths = [Path(line.strip()) for line in lines]
        return tuple(sorted(path for path in paths if libraries.is_toolkit_file(path.name)))


def watch(python: Path, folder: Path, toolkit: Path | None = None) -> LoadWatch:
    """Make every Python of an environment write its loaded libraries into `folder` as it ends.

    Libraries may come from the environment and, if the wheel uses the machine's CUDA, from the `toolkit`.
    """
    folder.mkdir()
    environment = python.parent.parent
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "_gpuforge_loaded.py").write_text(_HOOK.format(folder=str(folder)))
    (packages / "_gpuforge_loaded.pth").write_text("import _gpuforge_loaded\n")
    return LoadWatch(environment, toolkit, folder)


def advice(name: str) -> str:
    """Return how a wheel can get a CUDA library, by its SONAME or file name."""
    packages = " or ".join(dict.fromkeys(library.package for library in libraries.by_soname(name)))
    return (
        f"no declared package has {name} on the wheel's search paths: link it, or declare "
        f"{packages or 'the package that has it'} and load it through cuda-pathfinder"
    )
