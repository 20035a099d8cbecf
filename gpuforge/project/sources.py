"""Reads a project's source files: CUDA's among them, their includes, and pragmas for GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuforge.project.files import Files, Lines, Seen, Where

CUDA = (".cu",)
_CODE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".pyx", ".pxd", *CUDA)
_FORTRAN = (".f90", ".f", ".f95", ".f03")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./+-]{1,200})[>\"]", re.MULTILINE)
_KERNEL = re.compile(r"\b__global__\b|<<<")
_LIBRARY = re.compile(r"[\"'](lib[a-zA-Z_]{2,40}\.so(?:\.\d{1,4}){0,3})[\"']")
_PRAGMA = re.compile(
    r"^[ \t]*(?:#[ \t]*pragma[ \t]+|!\$)(acc\b|omp[ \t]+(?:target|declare[ \t]+target))", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Sources:
    """The facts in the source files."""

    cuda: tuple[str, ...] = ()  # names of .cu files
    kernel: Where | None = None  # the first `__global__` in a .cu file
    includes: tuple[Seen, ...] = ()  # each header once
    openacc: Where | None = None
    openmp_target: Where | None = None
    compiled: bool = False  # there is code to compile
    opened: tuple[Seen, ...] = ()  # shared libraries that Python files name: "libcufft.so.12"


def read(files: Files) -> Sources:
    """Read all source files that the build may compile."""
    includes: dict[str, Where] = {}
    pragmas: dict[str, Where] = {}
    cuda = tuple(files.ending(*CUDA))
    kernel = None
    names = files.ending(*_CODE, *_FORTRAN)
    for name in names:
        text = files.text(name)
        lines = Lines(text)
        for match in _INCLUDE.finditer(text):
            if match[1] not in includes:
                includes[match[1]] = Where(name, lines.of(match.start(1)))
        for match in _PRAGMA.finditer(text):
            pragmas.setdefault(match[1][:3].lower(), Where(name, lines.of(match.start(1))))
        if kernel is None and name.endswith((*CUDA, ".cuh")) and (found := _KERNEL.search(text)):
            kernel = Where(name, lines.of(found.start()))
    opened: dict[str, Where] = {}
    for name in files.ending(".py"):
        text = (
            files.text(name) if "/" in name else ""
        )  # a package's; setup.py and its helpers run in the build
        for match in _LIBRARY.finditer(text):
            opened.setdefault(match[1], Where(name, Lines(text).of(match.start())))
    return Sources(
        cuda, kernel, _seen(includes), pragmas.get("acc"), pragmas.get("omp"), bool(names), _seen(opened)
    )


def _seen(found: dict[str, Where]) -> tuple[Seen, ...]:
    return tuple(Seen(text, where) for text, where in sorted(found.items()))
