"""Links whose whole path is too long: os.path.realpath takes them for folders, and the kernel follows them."""

import os
from pathlib import Path

_FOLDER = "d" * 247
_SHORT = "abcdefghijklmnop"  # so many folders, each in the one before, are longer than PATH_MAX (4096)
_UP = "l" * 254


def maze(outside: str) -> list[tuple[str, str]]:
    """Return paths with what is there, a link's target or "" for a folder; `escape` leads to `outside` of the root."""
    found, place = [], ""
    for short in _SHORT:
        found += [(f"{place}{_FOLDER}", ""), (f"{place}{short}", _FOLDER)]
        place += f"{_FOLDER}/"
    through = "/".join(_SHORT)
    return [*found, (f"{through}/{_UP}", "../" * len(_SHORT)), ("escape", f"{through}/{_UP}/{outside}")]


def make_maze(root: Path, outside: str) -> None:
    """Make it in a folder."""
    for path, target in maze(outside):
        folder, name = os.path.split(path)
        handle = os.open(root, os.O_RDONLY)
        for each in filter(None, folder.split("/")):
            deeper = os.open(each, os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = deeper
        os.symlink(target, name, dir_fd=handle) if target else os.mkdir(name, dir_fd=handle)
        os.close(handle)
