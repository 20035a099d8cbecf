"""Project names that end in a CUDA major: "nvidia-cufft-cu12"."""

import re

UNSUFFIXED = 13  # the first CUDA major whose packages by NVIDIA have no suffix: nvidia-cufft
_EXTRA = re.compile(r"cu(?:da)?-?(1\d)(?!\d)", re.IGNORECASE)
_SUFFIX = re.compile(r"[-_.](cu\d{1,4}x?)$", re.IGNORECASE)


def suffix_of(name: str) -> str:
    """Return the CUDA suffix of a project name: "cu12" of "nvidia-cufft-cu12", "cu12x", or "" if it has none."""
    match = _SUFFIX.search(name)
    return match[1] if match else ""


def major_of_extra(extra: str) -> int | None:
    """Return the CUDA major that an extra is named for: 12 of "cuda12", "cu12", "cuda12-local"; None of "plots"."""
    match = _EXTRA.match(extra)
    return int(match[1]) if match else None


def without_suffix(project: str) -> str:
    """Return a normalized project name without its CUDA major: "libcudf" for "libcudf-cu12"; "name-cu12x" stays."""
    suffix = suffix_of(project)
    return project[: -len(suffix) - 1] if suffix and not suffix.endswith("x") else project


def with_suffix(name: str, major: int | str) -> str:
    """Return the name of a project for one CUDA major: "saxpy-cu13"."""
    return f"{name}-cu{major}"


def of_nvidia(name: str, major: int) -> str:
    """Return the name of NVIDIA's project for a CUDA major: "nvidia-cufft-cu12", but "nvidia-cufft" for 13."""
    return name if major >= UNSUFFIXED else with_suffix(name, major)
