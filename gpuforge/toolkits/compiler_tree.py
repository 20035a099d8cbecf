"""Unpack a compiler of Debian's packages into a folder of its own; needs neither root nor apt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gpuforge.toolkits import toolkit_tree, unpack
from gpuforge.toolkits.debian_parts import DebianPart, fetch_part, mirror
from gpuforge.toolkits.progress import Say, quiet

_KEPT_STATIC = "libstdc++.a"  # for -static-libstdc++; the machine's shared one is always there
_LEFT_OUT = ("lto-dump", "gcov")  # programs that no build calls, of 25 MB


def provision_compiler(parts: Sequence[DebianPart], destination: Path, *, say: Say = quiet) -> None:
    """Download `parts`, whole packages, from a Debian mirror and unpack them at `destination`, as below "/".

    GCC finds its own programs and headers from where it lies, and the C library where the machine has it. Raises
    what `provision_debian` does.
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
    """Return where a file of a compiler's packages goes: where it is, or None if no build needs it."""
    if path.parts[:2] == ("usr", "share"):
        return path if path.name == "copyright" else None
    if "plugin" in path.parts or any(word in path.name for word in _LEFT_OUT):
        return None
    return path


def _link(made: Path, link: PurePosixPath, target: str) -> None:
    """Make one link; what its packages do not have is the machine's: a shared library that programs are linked with.

    The archive beside such a link goes, as the linker would quietly take it where the machine lacks the library.
    """
    path = made / link
    path.parent.mkdir(parents=True, exist_ok=True)
    inside = PurePosixPath(os.path.normpath(link.parent / target))
    path.symlink_to(target if (made / inside).exists() else f"/{inside}")
    if path.suffix == ".so" and path.name != _KEPT_STATIC.replace(".a", ".so"):
        path.with_suffix(".a").unlink(missing_ok=True)
