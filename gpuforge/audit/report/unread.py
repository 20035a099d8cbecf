"""What an audit did not look at in a wheel without findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuforge.audit.model import WheelFacts
from gpuforge.audit.report.detail import shorten

_OF_OTHER_SYSTEMS = (".dll", ".pyd", ".dylib", ".exe", ".jnilib")
_OTHER_GPU_CODE = (".hsaco", ".co", ".spv", ".metallib", ".air")


def not_looked_at(facts: WheelFacts) -> Iterator[str]:
    """Yield the parts of a wheel that its report says nothing about, as phrases."""
    if not (facts.objects or facts.device):
        yield "anything but its metadata and its list of files: it has no binaries that gpuforge reads"
    if partly := [o.name for o in facts.linked if not o.all_searched]:
        yield f"some constants of {_names(partly)}, which may name libraries that they open"
    named = {name for o in facts.objects for name in o.mentions - o.mentioned_sonames}
    if composed := sorted(name for name in named if not name.endswith(".so")):
        yield f"libraries whose names are put together when they are opened ({_names(composed)})"
    for endings, words in (
        (_OF_OTHER_SYSTEMS, "files for other systems"),
        (_OTHER_GPU_CODE, "GPU code that is not CUDA's"),
    ):
        if files := [name.rpartition("/")[2] for name in facts.members if name.endswith(endings)]:
            yield f"{words} ({_names(files)})"


def _names(names: Sequence[str]) -> str:
    return shorten(list(dict.fromkeys(names)), 2)
