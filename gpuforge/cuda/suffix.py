"""CUDA majors in the names of projects, and in local versions: "nvidia-cufft-cu12", "cupy-cuda12x", "2.11.0+cu126"."""

import re
from collections.abc import Sequence

from packaging.requirements import Requirement

from gpuforge.errors import UsageError

UNSUFFIXED = 13  # the first CUDA major for which NVIDIA's packages have no suffix: nvidia-cufft
NVIDIAS = "nvidia-"  # the beginning of NVIDIA's names; also in the runtime
PATTERN = r"[-_.](cu(?:da)?[0-9]{1,4}x?)$"  # in any case; also in the guard in users' wheels
_SUFFIX = re.compile(PATTERN, re.IGNORECASE)
_LOCAL = re.compile(r"\+(?:.*[-_.])?cu(\d{1,4})(?=[-_.a-z]|$)", re.IGNORECASE)
_FIRST_WITH_MINOR = 20  # "80" was CUDA 8.0; 20 as a major is years away
_MAJOR = re.compile(r"cu(?:da)?-?(1\d)(?!\d)", re.IGNORECASE)


def suffix_of(name: str) -> str:
    """Return the CUDA suffix of a project name: "cu12" of "nvidia-cufft-cu12", "cuda12x", or "" if it has none."""
    match = _SUFFIX.search(name)
    return match[1] if match else ""


def number_of(name: str) -> int | None:
    """Return the number in a project name's CUDA suffix: 12 of "cupy-cuda12x", 118 of "spconv-cu118", else None."""
    suffix = suffix_of(name)
    return int(re.sub(r"\D", "", suffix)) if suffix else None


def major_of_suffix(name: str) -> int | None:
    """Return the CUDA major in a project name's suffix: 12 of "cupy-cuda12x", 11 of "spconv-cu118", else None."""
    number = number_of(name)
    return None if number is None else _major(number)


def major_of_local(version: str) -> int | None:
    """Return the CUDA major in a local version: 12 of "2.11.0+cu126", 13 of "1+cu130torch2.11"; or None."""
    found = _LOCAL.search(version)
    return _major(int(found[1])) if found else None


def _major(number: int) -> int:
    """Return the major of a CUDA version written without its dot: 11 of 118, 9 of 92, 13 of 13."""
    while number >= _FIRST_WITH_MINOR:
        number //= 10
    return number


def without_suffix(project: str) -> str:
    """Return a project name without its CUDA suffix: "libcudf" of "libcudf-cu12", "cupy" of "cupy-cuda12x"."""
    suffix = suffix_of(project)
    return project[: -len(suffix) - 1] if suffix else project


def with_suffix(name: str, major: int | str) -> str:
    """Return the name of a project for one CUDA major: "saxpy-cu13"."""
    return f"{name}-cu{major}"


def named_for(name: str, major: int | str) -> str:
    """Return the name of a project's wheels for a CUDA major: "saxpy-cu13"; a name with this suffix stays unchanged.

    Raises UsageError for a project that is named for another CUDA version.
    """
    present = number_of(name)
    if present is None:
        return with_suffix(name, major)
    if present == int(major):
        return name
    raise UsageError.of(
        f"{name} is named for {suffix_of(name)} already, and this wheel is for cu{major}",
        hint='give the project a name without a CUDA suffix, or set [wheel] naming = ["plain"]',
    )


def of_nvidia(name: str, major: int) -> str:
    """Return the name of NVIDIA's project for a CUDA major: "nvidia-cufft-cu12", but "nvidia-cufft" for 13."""
    return name if major >= UNSUFFIXED else with_suffix(name, major)


def is_of_nvidia(project: str) -> bool:
    """Return whether a project's name is one of NVIDIA's own: "nvidia-cufft-cu12", "nvidia-ml-py"."""
    return project.startswith(NVIDIAS)


def library_of(project: str) -> str:
    """Return the library in a project's name: "cufft" of "nvidia-cufft-cu12", "libcuvs" of "libcuvs-cu12"."""
    return without_suffix(project).removeprefix(NVIDIAS)


def major_of_extra(extra: str) -> int | None:
    """Return the CUDA major in an extra's name: 12 of "cuda12", "cu12", "cuda12-local"; None of "plots"."""
    match = _MAJOR.match(extra)
    return int(match[1]) if match else None


def major_in(name: str) -> int | None:
    """Return the CUDA major anywhere in the name of a project or an extra: 12 of "jax-cuda12-plugin"; else None."""
    match = _MAJOR.search(name)
    return int(match[1]) if match else None


def majors_of(requirement: str) -> set[int]:
    """Return the CUDA majors that a requirement is for: 12 of "jax[cuda12]"; raises InvalidRequirement."""
    parsed = Requirement(requirement)
    return {major for name in (parsed.name, *parsed.extras) if (major := major_in(name)) is not None}


def variant_label(cuda: str, axes: Sequence[tuple[str, str]] = ()) -> str:
    """Return the label of the variant for the toolkit `cuda` ("13.0") and values of axes: "cu13.0_torch2.11"."""
    return re.sub(
        "[^0-9a-z_.]", "_", "_".join([f"cu{cuda}", *(f"{name}{value}" for name, value in axes)]).lower()
    )
