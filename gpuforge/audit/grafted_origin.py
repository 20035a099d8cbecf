"""Tell whose library a grafted file really is: by its hash in RECORD, or by the hash in its name."""

from __future__ import annotations

from functools import cache

from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.tables import load
from gpuforge.cuda import sonames


def origin(graph: LinkGraph, file: str) -> str:
    """Return "libcudart.so.13 of nvidia-cuda-runtime 13.2.86" for a file that is recognised, else "".

    A grafted file that was changed afterwards is recognised by its name: auditwheel puts the first 8 digits of
    the sha256 of what it copied there.
    """
    wheel = next((w for w in graph.wheels if file in w.members), None)
    if wheel is None:
        return ""
    digest = sha256(wheel, file)
    if digest:
        for other in graph.wheels:
            if other is not wheel:
                for name, its in other.record.sha256.items() if other.record else ():
                    if its == digest:
                        return f"byte for byte {name} of {other.name}"
    named = sonames.graft_hash(file)
    for original, text in _by_sha256().items():
        if digest == original or (named and original.startswith(named)):
            return text
    return ""


def sha256(wheel: WheelFacts, file: str) -> str:
    """Return the sha256 of a wheel's member as RECORD has it, in hexadecimal; "" where it has none."""
    return wheel.record.sha256.get(file, "") if wheel.record else ""


@cache
def _by_sha256() -> dict[str, str]:
    rows = load("nvidia_files.toml")["library"]
    return {row["sha256"]: f"{row['soname']} of {row['package']} {row['version']}" for row in rows}
