"""What makes a wheel large: its files, and the GPU architectures that it has code for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gpuforge.audit import wheel as wheels
from gpuforge.audit.inflate import Archive

_SHOWN = 5


def largest_files(wheel: Path) -> str:
    """Return the largest files in words, by the bytes they have in the archive."""
    with Archive(wheel) as archive:
        members = sorted(archive.members, key=lambda member: -member.packed)
    return ", ".join(f"{member.name} {megabytes(member.packed)}" for member in members[:_SHOWN])


def architectures(wheel: Path) -> str:
    """Return in words how much of the archive is code for which GPU; "" when it has none.

    An image's bytes in its file count by the rate at which the archive packs that file.
    """
    with Archive(wheel) as archive:
        rates = {member.name: member.packed / member.size for member in archive.members if member.size}
        total = sum(member.packed for member in archive.members)
    found: Counter[str] = Counter()
    for code in wheels.read(wheel).device:
        for entry in (entry for container in code.containers for entry in container.entries):
            name = (
                entry.arch if entry.kind == "cubin" else f"{_KINDS.get(entry.kind, entry.kind)} {entry.arch}"
            )
            found[name] += round(entry.stored * rates[code.file])
    if not found:
        return ""
    parts = [f"{name} {megabytes(size)}" for name, size in found.most_common()]
    return ", ".join([*parts, f"no GPU code {megabytes(max(0, total - found.total()))}"])


def megabytes(size: int) -> str:
    """Return a size in words: 10⁶ bytes are a megabyte."""
    return f"{size / 1e6:.1f} MB"


_KINDS = {"ptx": "PTX", "lto-ir": "LTO-IR"}
