"""Refuses to be imported if two builds of one package (`x-cu12`, `x-cu13`) were installed over one another.

It is in a separate folder inside the package, beside one file per build, `<distribution>.build`, which the installer
puts there. Two of them, or another distribution's RECORD with this package in it, are two builds.
"""

from __future__ import annotations

import os
import re

SWITCH = "GPUFORGE_GUARD"  # "off" switches it off
# The pattern of gpuforge/cuda/suffix.py, by scripts/copy_to_runtime.py.
_SUFFIX = re.compile(r"[-_.](cu(?:da)?[0-9]{1,4}x?)$", re.IGNORECASE)


def builds(folder: str) -> list[str]:
    """Return the distributions that have put their files into the package around `folder`, sorted."""
    own = {name[: -len(".build")] for name in _names(folder) if name.endswith(".build")}
    stems = {_stem(name) for name in own}
    package = os.path.dirname(folder)
    depth, site = 1, os.path.dirname(package)
    while os.path.isfile(os.path.join(site, "__init__.py")):  # a package in a package
        depth, site = depth + 1, os.path.dirname(site)
    inside = "/".join([*package.split(os.sep)[-depth:], "__init__.py"])
    found = set(own)
    for name in _names(site):
        if not name.endswith(".dist-info"):
            continue
        distribution = _normal(name[: -len(".dist-info")].rpartition("-")[0])
        known = distribution in own or _stem(distribution) not in stems
        if not known and _owns(os.path.join(site, name, "RECORD"), inside):
            found.add(distribution)
    return sorted(found)


def check(folder: str) -> None:
    """Raise ImportError if the package around `folder` is a mixture of several builds."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return
    found = [name.replace("_", "-") for name in builds(folder)]
    if len(found) > 1:
        package = os.path.basename(os.path.dirname(folder))
        names = " ".join(found)
        raise ImportError(
            f"{package} was installed {len(found)} times, one build over the other: {', '.join(found)}. They write the "
            f"same files, so what is there now is a mixture. Remove them all and install the one you want:\n"
            f"  python -m pip uninstall -y {names}\n"
            f"  python -m pip install {found[-1]}"
        )


def _stem(distribution: str) -> str:
    return _SUFFIX.sub("", _normal(distribution))


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "_", distribution.lower())


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # inside a zip archive, or not readable: not a reason to refuse
        return []


def _owns(record: str, member: str) -> bool:
    try:
        with open(record, encoding="utf-8") as stream:
            return any(line.startswith((member + ",", f'"{member}"')) for line in stream)
    except OSError:
        return False


if __name__.endswith("._gpuforge_guard"):
    check(os.path.dirname(os.path.abspath(__file__)))
