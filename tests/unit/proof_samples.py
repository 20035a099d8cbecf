"""What several tests of the audit share: proof_samples."""

from collections.abc import Mapping
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

from gpuforge.audit import audit
from gpuforge.audit.findings import Topic

MODULE = "demo/ext.cpython-311-x86_64-linux-gnu.so"


X86, AARCH64, RISCV64 = 62, 183, 243


CU13, CUDNN = "$ORIGIN/../nvidia/cu13/lib", "$ORIGIN/../nvidia/cudnn/lib"


def proved(topic: Topic, *paths: Path, **question: object) -> list[str]:
    """Return what is proved of the first of the wheels about a topic."""
    report = audit(paths, **question)  # type: ignore[arg-type]
    first = next(each for each in report.wheels if each.facts.name == paths[0].name)
    return [proof.text for proof in first.proofs if proof.topic == topic]


def tagged(*platforms: str) -> str:
    return f"demo-1.0-cp311-cp311-{'.'.join(platforms)}.whl"


VULKAN, CUBIN = {"kind": "iree-vulkan", "arch": ""}, {"kind": "cubin", "arch": "sm_80"}


PTX = {"kind": "ptx", "arch": "compute_90", "isa": "8.7"}


def set_of(document: Mapping[str, Any], data: bytes, *images: object, **change: object) -> dict[str, Any]:
    """Return an index that lists these images of a file."""
    document = deepcopy({**document, "toolkit": "13.0"})
    (entry,) = document.get("modules") or document["libraries"]
    entry |= {"sha256": sha256(data).hexdigest(), "images": images}
    return document | change
