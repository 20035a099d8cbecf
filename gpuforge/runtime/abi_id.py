"""Computes the ABI id that a library must have here: the wheel's own, and versions of installed packages.

It imports no other module of the runtime, as a build runs it, too, with the Python of the build environment.
"""

from __future__ import annotations

from collections.abc import Mapping

# how many numbers of a version are part of the id; any other value means all of it
PARTS = {"major": 1, "major.minor": 2}


class PackageMissing(Exception):  # noqa: N818  a fact about this environment, for the caller to judge
    """A package whose version is part of the ABI is not installed; `args[0]` is its name."""


def identity(own: str, packages: Mapping[str, str]) -> str:
    """Return "1-0a1b+neuron-9.0" of "1-0a1b" and {"neuron": "major.minor"}; raises PackageMissing."""
    return "+".join([own, *(f"{name}-{_installed(name, packages[name])}" for name in sorted(packages))])


def _installed(name: str, part: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(name)
    except PackageNotFoundError:
        raise PackageMissing(name) from None
    if not found:  # its METADATA is damaged
        raise PackageMissing(name)
    return ".".join(found.split(".")[: PARTS.get(part)])
