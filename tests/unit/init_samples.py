"""A project in a folder, and what `gpuforge init` drafts for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpuforge.project import draft
from gpuforge.project.facts import look
from gpuforge.project.guess import Guess, Note, Value
from gpuforge.project.obtain import Origin

KERNEL = "__global__ void k(float *a) { a[threadIdx.x] = 1; }\n"
SKBUILD = (
    '[build-system]\nrequires = ["cmake", "ninja"]\nbuild-backend = "scikit_build_core.build"\n'
    '[project]\nname = "demo"\nversion = "1"\n'
)


class Draft(NamedTuple):
    """The guesses by key ("cuda.13.archs"), the facts of the notes by kind, and all of them."""

    keys: dict[str, Value]
    notes: dict[str, dict[str, str]]
    found: list[Guess | Note]

    def settings(self) -> dict[str, Value]:
        """Return CMake's options."""
        start = "build.config-settings.cmake.define."
        return {key.removeprefix(start): value for key, value in self.keys.items() if key.startswith(start)}

    def toolkits(self) -> dict[str, Value]:
        return {key.split(".")[1]: value for key, value in self.keys.items() if key.endswith(".toolkit")}


def lay(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def drafted(folder: Path, files: Mapping[str, str]) -> Draft:
    found = draft.guesses(look(lay(folder, files)), Origin("demo", "from-folder", {"path": "."}))
    keys = {".".join((*each.table, each.key)): each.value for each in found if isinstance(each, Guess)}
    return Draft(
        keys, {each.reason.kind: dict(each.reason.facts) for each in found if isinstance(each, Note)}, found
    )
