"""Reads the GPU architectures in commands of CMake files."""

from __future__ import annotations

import re

from gpuforge.project.cmake_syntax import Command
from gpuforge.runtime.arch import Arch, Target

MOST_ARCHS = 100  # in one list
GENCODE = r"arch=(\w+),code=\[?([\w,]+)\]?"
_ARCH = r"\d{2,3}[af]?(?:-real|-virtual)?"
_ALL_ARCHS = "CMAKE_CUDA_ARCHITECTURES"  # for each target without CUDA_ARCHITECTURES
# Variables for the architectures of GPUs, except CMake's and torch's, which gpuforge sets.
OWN_ARCHS = r"(?!CMAKE_|TORCH_)\w*(CUDA|GPU|NVCC|SM)\w*ARCH\w*|\w*(COMPUTE_CAPABILIT|GENCODE|GPU_TARGETS)\w*"


def set_by(command: Command) -> tuple[str, ...]:
    """Return the architectures that a command sets."""
    words = command.arguments
    if command.name == "set" and words[:1] == (_ALL_ARCHS,) and "CACHE" not in words:
        return words[1:]
    if "CUDA_ARCHITECTURES" in words and command.name in {"set_target_properties", "set_property"}:
        return words[words.index("CUDA_ARCHITECTURES") + 1 :][: 1 if "PROPERTIES" in words else None]
    return ()


def listed(text: str) -> list[Target]:
    """Return the architectures of a list; empty if it has anything else."""
    items = [part for part in re.split(r"[;\s]+", text) if part]
    if len(items) > MOST_ARCHS or not all(re.fullmatch(_ARCH, item) for item in items):
        return []
    parts = [item.partition("-") for item in dict.fromkeys(items)]  # "90" is machine code and PTX
    return [Target(Arch.parse(number), kind != "virtual", kind != "real") for number, _, kind in parts]


def of_gencode(codes: str) -> list[Target]:
    """Return the architectures of `code=…` for nvcc; empty if one is unknown."""
    try:
        parsed = [(code, Arch.parse(code)) for code in codes.split(",")]
    except ValueError:
        return []
    return [Target(each, code == each.sm, code != each.sm) for code, each in parsed]
