"""Finds kernels in separate wheels, such as saxpy-kernels-cu13, which are read in their place and never imported.

`wheels.json` beside the runtime lists the kernels wheels of this package. Each has its own folder beside the package's,
with a `_gpuforge` in it, like the package, and a `wheel.json` in that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import document, layout
from .values import BuildPlace, Origin, Reason, damaged, place_in, unreadable

SCHEMA = 1


class ExpectedKernels(NamedTuple):
    """A kernel set or library that comes in kernels wheels: `abi` is the interface that the package was built for.

    `cpu` is the library in the package's own wheel that does a set's work on the CPU.
    """

    kind: str
    abi: str
    stands_in_for: str = ""
    cpu: str = ""


class PossibleWheel(NamedTuple):
    """A kernels wheel that this package can have, installed or not: `extra` brings it, `folder` is its own."""

    distribution: str
    folder: str
    extra: str


class Listing(NamedTuple):
    """A package's list of its kernels wheels, those for the newest CUDA first."""

    distribution: str
    version: str
    wheels: tuple[PossibleWheel, ...]
    sets: Mapping[str, ExpectedKernels]


class InstalledKernelsWheel(NamedTuple):
    """An installed kernels wheel: its folder of kernels, and why it cannot be used, for each set or as a whole."""

    distribution: str
    home: str
    problem: Reason | None = None
    refused: Mapping[str, Reason] = {}

    def problem_of(self, name: str) -> Reason | None:
        """Return why nothing of the set `name` can be used."""
        return self.problem or self.refused.get(name)


def listing(home: str) -> Listing | None:
    """Return the list of kernels wheels of the package whose runtime is in `home`; None if it has none."""
    try:
        data = _read(os.path.join(home, layout.LISTING))
        wheels = tuple(
            PossibleWheel(
                document.text(wheel, "distribution"),
                document.file_name(wheel, "folder"),
                document.text(wheel, "extra"),
            )
            for wheel in document.tables(data, "wheels")
        )
        return Listing(
            document.text(data, "distribution"), document.text(data, "version"), wheels, sets_of(data)
        )
    except (OSError, document.Damaged):
        return None


def installed(
    home: str, package: str, path: Sequence[str] | None = None
) -> tuple[InstalledKernelsWheel, ...]:
    """Return the kernels wheels that are installed for the package whose runtime is in `home`.

    Each is looked for beside the package, then in the folders of `path` (default: sys.path); the first usable copy
    counts.
    """
    known = listing(home)
    if known is None:
        return ()
    site = os.path.dirname(home)
    for _ in range(package.count(".") + 1):
        site = os.path.dirname(site)
    folders = [site, *filter(lambda each: isinstance(each, str), sys.path if path is None else path)]
    found = []
    for wheel in known.wheels:
        places = dict.fromkeys(
            os.path.join(folder, wheel.folder, layout.HOME) for folder in folders if folder
        )
        copies = [
            _judged(known, wheel, place)
            for place in places
            if os.path.isfile(os.path.join(place, layout.WHEEL))
        ]
        if copies:
            found.append(next((copy for copy in copies if copy.problem is None), copies[0]))
    return tuple(found)


def places_of(home: str, package: str, folder: str) -> tuple[BuildPlace, ...]:
    """Return the places of the set that would be in `folder`, in kernels wheels; none if they do not have it."""
    known, name = listing(home), os.path.basename(folder)
    if known is None or name not in known.sets:
        return ()
    places = []
    for wheel in installed(home, package):
        inside, refused = layout.kernels(wheel.home, name), wheel.problem_of(name)
        broken = BuildPlace(Origin.SHIPPED, inside, problem=refused)
        place = broken if refused else place_in(Origin.SHIPPED, inside)
        places.append(place._replace(wheel=wheel.distribution))
    return tuple(places) or (BuildPlace(Origin.SHIPPED, folder, problem=none_installed(known)),)


def none_installed(listed: Listing) -> Reason:
    """Return the reason that no kernels wheel is there, with the command to install one."""
    extras = " or ".join(f"'{listed.distribution}[{wheel.extra}]'" for wheel in listed.wheels)
    return Reason("no-kernels-wheel", {"wanted": extras})


def _judged(listed: Listing, wheel: PossibleWheel, home: str) -> InstalledKernelsWheel:
    file = os.path.join(home, layout.WHEEL)
    try:
        data = _read(file)
        version, sets = document.text(data, "version"), sets_of(data)
    except OSError as error:
        return InstalledKernelsWheel(wheel.distribution, home, unreadable(file, error))
    except document.Damaged as error:
        return InstalledKernelsWheel(wheel.distribution, home, damaged(file, error))
    if version != listed.version:
        extra = f"'{listed.distribution}[{wheel.extra}]'"
        facts = {"wheel": wheel.distribution, "found": version, "expected": listed.version, "wanted": extra}
        return InstalledKernelsWheel(wheel.distribution, home, Reason("other-version", facts))
    refused = {
        name: Reason(
            "other-interface",
            {"wheel": wheel.distribution, "found": there.abi, "expected": listed.sets[name].abi},
        )
        for name, there in sets.items()
        if name in listed.sets and there.abi != listed.sets[name].abi
    }
    return InstalledKernelsWheel(wheel.distribution, home, None, refused)


def _read(file: str) -> dict[str, Any]:
    data = document.read(file)
    if document.whole(data, "schema") != SCHEMA:
        raise document.Damaged(f"its schema is not {SCHEMA}")
    return data


def sets_of(data: dict[str, Any]) -> dict[str, ExpectedKernels]:
    """Return the kernel sets that a list or a kernels wheel names; raises Damaged."""
    return {
        document.file_name(each, "name"): ExpectedKernels(
            document.text(each, "kind"),
            document.text(each, "abi"),
            document.text(each, "stands-in-for", ""),
            document.file_name(each, "cpu", ""),
        )
        for each in document.tables(data, "sets")
    }
