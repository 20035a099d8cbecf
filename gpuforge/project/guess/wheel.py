"""Guesses `[wheel]`, and notes further needs of the wheels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from gpuforge.cuda import sonames
from gpuforge.project.cuda_libraries import library, names
from gpuforge.project.facts import Project
from gpuforge.project.files import Where
from gpuforge.project.guess.guess import Guess, Note, because

_WHEEL = ("wheel",)
_DEVICE_CODE = (".ptx", ".cubin", ".fatbin")


def guesses(project: Project) -> Iterator[Guess | Note]:
    """Yield the keys of [wheel], and notes on code that another toolchain would compile."""
    sources = project.sources
    if project.cuda is None or project.sources.kernel is None:
        yield from _shipped(project)
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
