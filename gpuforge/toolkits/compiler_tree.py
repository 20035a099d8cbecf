"""Unpacks a compiler of Debian's packages into a separate folder, without root or apt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gpuforge.toolkits import toolkit_tree, unpack
from gpuforge.toolkits.debian_parts import DebianPart, fetch_part, mirror
from gpuforge.toolkits.progress import Say, quiet

_KEPT_STATIC = "libstdc++.a"  # for -static-libstdc++; the machine always has the shared one
_LEFT_OUT = ("lto-dump", "gcov")  # programs that builds do not call, of 25 MB


def provision_compiler(parts: Sequence[DebianPart], destination: Path, *, say: Say = quiet) -> None:
    """Download `parts`, whole packages, from a Debian mirror and unpack them below `destination`, as below "/".

    GCC finds its own programs and headers relative to itself, and the machine's C library. Raises the errors of
    `provision_debian`.
    """
    with toolkit_tree.staged(destination) as partial:
        made = partial / "tree"
        made.mkdir()
        links: dict[PurePosixPath, str] = {}
        for part in parts:
            say(f"fetching {part.package} {part.version} ({part.size / 1e6:.0f} MB) from {mirror()}")
            file = partial / "part"
            fetch_part(part, file, say=say)
            unpack.unpack_deb(file, made, place, links=links)
            file.unlink()
        for link, target in links.items():
            if place(link) is not None:
                _link(made, link, target)
        toolkit_tree.settle_times(made)
    say(f"compiler ready in {destination}")


def place(path: PurePosixPath) -> PurePosixPath | None:
    """Return the place of a file of a compiler's packages: its own path, or None if no build needs it."""
    if path.parts[:2] == ("usr", "share"):
        return path if path.name == "copyright" else None
    if "plugin" in path.parts or any(word in path.name for word in _LEFT_OUT):
        return None
    return path


def _link(made: Path, link: PurePosixPath, target: str) -> None:
    """Make one link, to a file of the packages or, for a shared library that programs are linked with, of the machine.

    The archive beside such a link is removed, as the linker would silently use it if the machine lacks the library.
    """
    path = made / link
    path.parent.mkdir(parents=True, exist_ok=True)
    inside = PurePosixPath(os.path.normpath(link.parent / target))
    path.symlink_to(target if (made / inside).exists() else f"/{inside}")
    if path.suffix == ".so" and path.name != _KEPT_STATIC.replace(".a", ".so"):
        path.with_suffix(".a").unlink(missing_ok=True)
