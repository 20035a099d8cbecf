"""Write a finished wheel, at a fixed time and within its limit of size; an error names what makes it large."""

import os
from collections import Counter
from pathlib import Path

from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.read import wheel as wheels
from gpuforge.errors import ActionError, UsageError
from gpuforge.manifest.sizes import size_in_words
from gpuforge.wheel import unpacked
from gpuforge.wheel.archive import Archive

_SHOWN = 5
_KINDS = {"ptx": "PTX", "lto-ir": "LTO-IR"}


def write(tree: Path, target: Path, size_limit: int | None) -> Path:
    """Write the wheel `target` and return it; raises ActionError, and leaves none, when it exceeds the limit."""
    unpacked.write(tree, target, epoch=epoch())
    try:
        check(target, size_limit)
    except ActionError:
        target.unlink()
        raise
    return target


def epoch() -> int | None:
    """Return SOURCE_DATE_EPOCH (seconds since 1970), None when it is not set; raises UsageError for other text."""
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    if not text.isdigit():
        raise UsageError.of(f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds", hint="unset it")
    return int(text)


def check(wheel: Path, limit: int | None) -> None:
    """Raise ActionError, which names the largest parts, when a wheel has more than `limit` bytes."""
    size = wheel.stat().st_size
    if limit is None or size <= limit:
        return
    words = [size_in_words(each) for each in (size, limit)]
    if len(set(words)) == 1:
        words = [f"{each:,} bytes" for each in (size, limit)]
    device = architectures(wheel)
    raise ActionError.of(
        f"{wheel.name} is {words[0]}, more than [wheel] size-limit of {words[1]}; "
        f"its largest files, compressed: {largest_files(wheel)}"
        + (f"; by GPU architecture: {device}" if device else ""),
        hint="build for fewer archs, strip debug information, or raise the limit",
    )


def largest_files(wheel: Path) -> str:
    """Return the largest files, by their compressed bytes, as text."""
    with Archive(wheel) as archive:
        members = sorted(archive.members, key=lambda member: -member.packed)
    return ", ".join(f"{member.name} {size_in_words(member.packed)}" for member in members[:_SHOWN])


def architectures(wheel: Path) -> str:
    """Return the bytes of code for each GPU architecture as text; "" when there is none.

    The bytes of an image are scaled by the compression of its file in the archive.
    """
    with Archive(wheel) as archive:
        rates = {member.name: member.packed / member.size for member in archive.members if member.size}
        total = sum(member.packed for member in archive.members)
    found: Counter[str] = Counter()
    for code in wheels.read(wheel, patterns()).device:
        for entry in (entry for container in code.containers for entry in container.entries):
            name = (
                entry.target
                if entry.kind == "cubin"
                else f"{_KINDS.get(entry.kind, entry.kind)} {entry.target}"
            )
            found[name] += round(entry.stored * rates[code.file])
    if not found:
        return ""
    parts = [f"{name} {size_in_words(size)}" for name, size in found.most_common()]
    return ", ".join([*parts, f"no GPU code {size_in_words(max(0, total - found.total()))}"])
