"""The entries of search paths that are missing, and the command that adds them."""

from __future__ import annotations

from collections.abc import Iterable

from gpuforge.audit import layout
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge


def entry_to_library(edge: Edge) -> str:
    """Return the entry by which an object would find a library: of the given wheels, or of a package."""
    target = edge.provider.object
    if target is not None:
        return layout.entry_to(layout.install_path(target.file).rpartition("/")[0], edge.loader)
    folders = [p.folder for p in package_tables.candidates(edge.needed) if p.package == edge.provider.package]
    return layout.entry_to(f"{layout.SITE}/{folders[0]}", edge.loader) if folders else "$ORIGIN/…"


def add_entries(entries: Iterable[str]) -> str:
    """Return the command that adds entries and keeps those that are there."""
    return f"patchelf --add-rpath '{':'.join(entries)}' FILE"
