"""Guesses `[wheel]`, and notes further needs of the wheels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.frameworks import linked
from gpuforge.project.cuda_libraries import library, names
from gpuforge.project.facts import Project
from gpuforge.project.files import Where
from gpuforge.project.guess.guess import Guess, Note, because

_WHEEL = ("wheel",)
_DEVICE_CODE = (".ptx", ".cubin", ".fatbin")


def guesses(project: Project) -> Iterator[Guess | Note]:
    """Yield the keys of [wheel], and notes on code that another toolchain would compile."""
    settings, sources = project.wheelbuilder, project.sources
    excluded = {
        sonames.bare(seen.text): seen.where
        for seen in settings.excluded
        if not libraries.is_toolkit_file(seen.text)
        and not libraries.is_driver(seen.text)
        and not any(re.match(each.libraries, seen.text) for each in linked())
        and re.fullmatch(r"lib[\w.+-]+\.so[\w.]*", seen.text)
    }
    if excluded:
        yield Guess(_WHEEL, "exclude", tuple(excluded), (because("excluded", *set(excluded.values())),))
    if project.cuda is None or project.sources.kernel is None:
        yield from _shipped(project)
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
    opened = [seen for seen in sources.opened if library(sonames.bare(seen.text)) in names() | {"cudart"}]
    if opened:
        files = ", ".join(seen.text for seen in opened)
        yield Note(_WHEEL, because("opened", *(seen.where for seen in opened[:4]), names=files))
    if sources.openacc:
        yield Note(_WHEEL, because("openacc", sources.openacc))
    if sources.openmp_target:
        yield Note(_WHEEL, because("openmp-target", sources.openmp_target))


def _shipped(project: Project) -> Iterator[Guess]:
    """Yield that GPU code in the project's files may be part of a wheel that has no kernels of its own."""
    found = sorted(name for name in project.files.names if name.endswith(_DEVICE_CODE))
    last = dict.fromkeys(PurePosixPath(name).name for name in found)
    if last:
        why = "the project ships this file as it is"
        ignored = tuple({"rule": "GF409", "file": f"*/{name}", "reason": why} for name in last)
        reason = because("shipped-code", *(Where(name) for name in found[:4]))
        yield Guess(("audit",), "ignore", ignored, (reason,))
