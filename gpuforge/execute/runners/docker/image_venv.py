"""The environments of gpuforge for the Pythons of images, each made once in gpuforge's cache folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuforge.containers import image_environment
from gpuforge.execute import locks
from gpuforge.toolchains.inventory import Inventory
from gpuforge.tree import remove


def ensure(inventory: Inventory, cache: Path, finish: Callable[[Path], None]) -> Path:
    """Return the environment for an image's Python, made in `cache` if it is not there.

    `finish` is called with a new one before it is used. Raises the errors of `image_environment.write`.
    """
    folder = cache / image_environment.name(inventory)
    with locks.wait(folder.with_suffix(".lock")):
        if not folder.is_dir():
            part = folder.with_suffix(".part")
            remove(part)
            try:
                image_environment.write(part, inventory)
                finish(part)
                part.rename(folder)
            finally:
                remove(part)
    return folder
