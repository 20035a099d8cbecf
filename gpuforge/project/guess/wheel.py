"""`[wheel]` and what else the wheels need."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.cuda import libraries
from gpuforge.project.guess.guess import Guess, Note, because
from gpuforge.project.look import Project

_WHEEL = ("wheel",)
_OF_TORCH = r"lib(torch|c10|shm)\w*"


def guesses(project: Project) -> Iterator[Guess | Note]:
    """Yield the keys of [wheel], and notes on code that another toolchain would compile."""
    settings, sources = project.wheelbuilder, project.sources
    if project.cuda is None:
        yield Guess(_WHEEL, "naming", ("plain",), (because("naming-plain"),))
    excluded = {
        re.sub(r"^lib|\.so.*$", "", seen.text): seen.where
        for seen in settings.excluded
        if not libraries.is_toolkit_file(seen.text)
        and not libraries.is_driver(seen.text)
        and not re.match(_OF_TORCH, seen.text)
        and re.fullmatch(r"lib[\w.+-]+\.so[\w.]*", seen.text)
    }
    if excluded:
        yield Guess(_WHEEL, "exclude", tuple(excluded), (because("excluded", *set(excluded.values())),))
    if settings.image:
        yield Note(_WHEEL, because("image", settings.image.where, image=settings.image.text))
    if settings.test_command and settings.test_command.text.strip():
        requires = ", ".join(seen.text for seen in settings.test_requires)
        yield Note(
            ("test",),
            because(
                "test-command",
                settings.test_command.where,
                command=settings.test_command.text,
                requires=requires,
            ),
        )
    if sources.openacc:
        yield Note(_WHEEL, because("openacc", sources.openacc))
    if sources.openmp_target:
        yield Note(_WHEEL, because("openmp-target", sources.openmp_target))
