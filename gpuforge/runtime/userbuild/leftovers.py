"""Removes user builds that cannot be used any more: for releases or packages that are gone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from .. import layout
from ..builds import BuildsFolder, object_of, place_in, places
from ..private import BuildUnusable

UNUSED_DAYS = 30


def remove_leftovers(user: Path) -> list[Path]:
    """Remove the unused places below the folder of all user builds; return them.

    A place is unused if its build was not looked up for 30 days, and the package that it was made for is not installed
    there any more, or has other sources now. It stays if another installation of the same release uses it.
    """
    return [place.folder for place in _all(user) if _left_over(place) and _removed(place)]


def _all(user: Path) -> Iterator[BuildsFolder]:
    try:
        packages = sorted(user.iterdir())
    except OSError:
        return
    for package in packages:
        yield from places(package)


def _left_over(place: BuildsFolder) -> bool:
    try:
        build = place.active()
        used = place.used() if build else place.folder.stat().st_mtime
    except (BuildUnusable, OSError):
        return False
    if time.time() - used < UNUSED_DAYS * 86400:
        return False
    name = object_of(place)
    try:
        recipe = layout.recipe(layout.sources(build.home if build else "", name))
        return build is None or place_in(str(place.folder.with_name(name)), recipe).folder != place.folder
    except OSError:
        return True


def _removed(place: BuildsFolder) -> bool:
    shutil.rmtree(place.folder, ignore_errors=True)
    return not place.folder.exists()
