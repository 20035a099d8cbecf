"""GF407: the inputs of a device link, still in the file beside its result."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import is_relocatable, own_code
from gpuforge.audit.rules.rule import Rule

_LEAST = 32 << 20  # bytes; less does not justify another build, as PTX for newer GPUs is there, too
_SHARE = 0.1  # of the file


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Add up the containers in `__nv_relfatbin` of files that have a linked one, too."""
    sizes = {(w.name, name): size for w in graph.wheels for name, size in w.members.items()}
    for wheel in graph.wheels:
        for code in own_code(wheel):
            left = sum(c.size for c in code.containers if is_relocatable(c))
            whole = sizes.get((wheel.name, code.file), 0)
            linked = any(not is_relocatable(c) for c in code.containers)
            if not linked or left < _LEAST or left < _SHARE * whole:
                continue
            subject = Subject(
                file=code.file,
                detail="{left:MiB} of {whole:MiB} MiB",
                facts=facts_of(left=left, whole=whole),
            )
            yield RULE.finding(
                wheel.name,
                files=(code.file,),
                subjects=(subject,),
                what="The inputs of the device link (__nv_relfatbin) are still in the file, beside its result.",
                why="Users download the machine code twice, and only the PTX of the inputs can ever be used.",
                fix="Compile without relocatable device code (CUDA_SEPARABLE_COMPILATION OFF) if kernels do not "
                "call across files. Otherwise link-time optimisation (nvcc -dlto) leaves less behind.",
            )


RULE = Rule(
    code="GF407",
    severity="warning",
    title="the inputs of the device link are left in the file beside its result",
    check=check,
)
