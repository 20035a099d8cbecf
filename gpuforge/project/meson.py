"""Reads the use of compilers, CUDA and packages of the system in a project's Meson files; Meson is not run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuforge.project.files import Files, Lines, Seen, Where

_COMPILES = re.compile(r"\b(extension_module|shared_library|shared_module|static_library|executable)\s*\(")
_CUDA = re.compile(
    r"\b(?:project|add_languages)\s*\([^)]*'cuda'|\bdependency\s*\(\s*'cuda'|import\('unstable-cuda'\)"
)
_DEPENDENCY = re.compile(r"\bdependency\s*\(\s*'([\w.+-]{1,60})'(?![^)]*required\s*:\s*false)")


@dataclass(frozen=True, slots=True)
class Meson:
    """The facts in all Meson files of a project that meson-python builds."""

    compiles: bool = False
    cuda: Where | None = None
    packages: tuple[Seen, ...] = ()  # dependency('zlib')


def read(files: Files, backend: str) -> Meson:
    """Read the files; a project with another backend has none."""
    if backend != "mesonpy":
        return Meson()
    compiles, cuda, packages = False, None, dict[str, Seen]()
    for name in files.ending("meson.build"):
        text = re.sub(r"^\s*#.*$", "", files.text(name), flags=re.MULTILINE)
        lines = Lines(text)
        compiles = compiles or _COMPILES.search(text) is not None
        found = _CUDA.search(text)
        cuda = cuda or (Where(name, lines.of(found.start())) if found else None)
        for match in _DEPENDENCY.finditer(text):
            packages.setdefault(match[1], Seen(match[1], Where(name, lines.of(match.start()))))
    return Meson(compiles, cuda, tuple(packages.values()))
