"""`[build]` and `[test]`: placeholders in commands and settings, and builds without CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from gpuforge.manifest import braces
from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.problem import Problem, Raw, table
from gpuforge.manifest.quoting import quote

_EXAMPLE = 'add, for example, [cuda.13] with toolkit = "13.0" and archs = ["80", "90"]'
_ARCHITECTURES = ("CMAKE_CUDA_ARCHITECTURES", "CUDAARCHS")
# CMake; nvcc, clang++ and nvc++; nvcc's `-gencode arch=compute_80,code=[sm_80,native]`
_NATIVE = re.compile(
    r"""((?<!\w)|(?<=-D))(CMAKE_CUDA_ARCHITECTURES(:\w+)?|CUDAARCHS)=["']?native\b
    |(?<![^\s"'=,])(-arch|-code|--(gpu-architecture|gpu-code|offload-arch|cuda-gpu-arch))[=\s]\s*["']?native\b
    |(?<![^\s"'=,])-gpu=\S*\bccnative\b
    |(?<![^\s"'=,])(-gencode|--generate-code)[=\s]\s*\S*[=,\[]native\b""",
    re.VERBOSE,
)
_FILLED = ("config-settings", "env", "before")  # the keys of [build] whose strings may hold placeholders


def without_cuda(data: Raw) -> Iterator[Problem]:
    """Yield keys of a build without CUDA that use its toolkit."""
    build = table(data, "build")
    if build.get("cuda") is not False and "cuda" in data:
        return
    why = "with cuda = false" if "cuda" in data else "without [cuda]"
    for key in _FILLED:
        if any("toolkit" in braces.names(text) for _, text in _texts(build.get(key))):
            yield Problem(
                ("build", key),
                f"[build] {key} uses {{toolkit}}, but {why} the build has no CUDA toolkit",
                "remove `cuda = false` if the host build needs a toolkit" if "cuda" in data else _EXAMPLE,
            )


def native(data: Raw) -> Iterator[Problem]:
    """Yield settings that compile GPU code for the build machine's own GPU, not for `archs`."""
    build = table(data, "build")
    for title in ("config-settings", "env"):
        before: tuple[KeyPath, str] = ((), "")  # the string before in a list: `["-arch", "native"]`
        for inside, text in _texts(build.get(title)):
            named = str(inside[0]).rpartition(".")[2] if inside else ""
            follows = inside and inside[:-1] == before[0] and isinstance(inside[-1], int)
            call = f"{before[1]} {text}" if follows else text
            before = (inside[:-1], text)
            ends = max((found.end() for found in _NATIVE.finditer(call)), default=0)
            if (named in _ARCHITECTURES and text.strip() == "native") or ends > len(call) - len(text):
                yield Problem(
                    ("build", title, *inside),
                    f"[build] {title}: {quote(text)} compiles GPU code for the GPU of the build machine only",
                    "remove it: gpuforge passes the architectures in `archs` to the build",
                )


def unknown_placeholders(data: Raw) -> Iterator[Problem]:
    """Yield unknown placeholders."""
    axes = table(data, "axes")  # their names have been filled in, where they are known
    known = [(("build", key), braces.OF_BUILD) for key in _FILLED]
    for path, own in [*known, (("test", "command"), braces.OF_TEST)]:
        names = (*own, *(name for name in axes if isinstance(name, str)))
        title, key = path
        for inside, text in _texts(table(data, title).get(key)):
            for name in dict.fromkeys(braces.names(text)):
                if name not in names:
                    near = get_close_matches(name.lower(), names, n=1)
                    choices = f"did you mean {{{near[0]}}}?" if near else f"known here: {_braces(names)}"
                    yield Problem(
                        (*path, *inside),
                        f"[{title}] {key}: {{{name}}} is not a placeholder",
                        f"{choices} For literal braces write {{{{{name}}}}}",
                    )


def _braces(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names) + "."


def _texts(value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yield every string in a value of the parsed TOML, each with the path that leads to it."""
    if isinstance(value, str):
        yield (), value
    elif isinstance(value, Mapping | list):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in parts:
            for path, text in _texts(part):
                yield (key, *path), text
