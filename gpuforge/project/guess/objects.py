"""Guesses `[[objects]]`: the files that must have GPU code, so that a build which silently leaves it out fails."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.project.facts import Project
from gpuforge.project.guess.guess import Guess, Note, because

_OBJECT = ("objects",)


def guesses(project: Project) -> Iterator[Guess | Note]:
    """Yield an object for the CUDA extensions that setup.py names."""
    if project.script.computed_extensions:
        yield Note(_OBJECT, because("gpu-computed", project.script.computed_extensions))
    modules = [seen for seen in project.script.gpu_extensions if re.fullmatch(r"[A-Za-z_][\w.]*", seen.text)]
    if not modules or project.sources.kernel is None:
        return
    files = tuple(dict.fromkeys(f"{seen.text.replace('.', '/')}*.so" for seen in modules))
    yield Guess(_OBJECT, "name", "gpu-code", (because("gpu-object"),))
    yield Guess(_OBJECT, "role", "gpu", ())
    yield Guess(_OBJECT, "files", files, (because("gpu-files", *(seen.where for seen in modules)),))
