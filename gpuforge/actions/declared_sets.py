"""The ways in which users install a wheel: bare, with the extra of its CUDA, with each extra that the tests name."""

import re
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError
from gpuforge.wheel import metadata
from gpuforge.wheel.filename import WheelName

Extras = tuple[str, ...]


def declared_sets(wheel: Path, extras: Sequence[str], cuda: str) -> tuple[Extras, ...]:
    """Return the sets of extras with which to install a wheel for CUDA `cuda` ("13.0"); each declares something else.

    The last is `extras`, that of the tests; before it come the bare wheel, each extra named for this CUDA major
    (`cuda13`, `cu13-local`), and each other one of `extras` together with its CUDA extra. Raises ActionError for an
    extra that the wheel does not have: pip would ignore it.
    """
    text = metadata.of_wheel(wheel)
    provided = metadata.fields(text, "Provides-Extra")
    for extra in extras:
        if canonicalize_name(extra) not in map(canonicalize_name, provided):
            name = WheelName.parse(wheel.name)
            raise ActionError.of(
                f"{name.distribution}-{name.version} has no extra {extra!r}",
                hint=f"its extras are {', '.join(provided)}" if provided else "it has no extras",
            )
    own = [extra for extra in provided if for_cuda(extra, cuda)]
    base = [extra for extra in extras if for_cuda(extra, cuda)]
    others = [(*base, extra) for extra in extras if extra not in base]
    found: dict[frozenset[str], Extras] = {}
    requirements = metadata.requirements(text)
    for chosen in [(), *((extra,) for extra in own), *others]:
        found.setdefault(_active(requirements, chosen), chosen)
    found.pop(_active(requirements, extras), None)
    return (*found.values(), tuple(extras))


def for_cuda(extra: str, cuda: str) -> bool:
    """Return whether an extra is for the major of a CUDA version ("13.0"): cuda13, cu13, cuda13-local, cuda_13x."""
    major = major_of(cuda)
    pattern = rf"cu(da)?[-_.]?{major}(?!\d)[a-z0-9._-]*"  # a name only, as pip gets it in a requirement
    return bool(major) and re.fullmatch(pattern, extra, re.IGNORECASE) is not None


def declares(wheel: Path, extras: Sequence[str]) -> bool:
    """Return whether a wheel, installed with some of its extras, may need anything else."""
    requirements = metadata.requirements(metadata.of_wheel(wheel))
    return any(extras or not metadata.extras_in(each.marker) for each in requirements)


def title(extras: Sequence[str]) -> str:
    """Name a set in a message: "[cuda13,plots]", or "bare"."""
    return f"[{','.join(extras)}]" if extras else "bare"


def _active(requirements: Sequence[Requirement], extras: Sequence[str]) -> frozenset[str]:
    """Return the requirements that hold with some extras, as text."""
    return frozenset(
        f"{each.name}{each.extras}{each.specifier}{each.url}"
        for each in requirements
        if any(metadata.holds(each.marker, {}, extra) for extra in ("", *extras))
    )
