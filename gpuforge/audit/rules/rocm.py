"""GF113, GF413: ROCm's libraries and GPU code."""

from collections import Counter
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.processes import processes
from gpuforge.audit.rules.rule import rule

# Libraries that a torch for one of them has, and a torch for the other has not
_OF_TORCH = {
    "CUDA": frozenset({"libc10_cuda.so", "libtorch_cuda.so"}),
    "ROCm": frozenset({"libc10_hip.so", "libtorch_hip.so"}),
}


@rule(
    "GF113",
    "error",
    "a torch for CUDA and one for ROCm would be needed in one process",
    what="Objects need a torch for CUDA, and others one for ROCm.",
    why="An environment has one torch: the import of the others fails with “cannot open shared object file”.",
    fix="Build or install all of them for one kind of torch: https://pytorch.org/get-started/locally has an index for "
    "each.",
    of_process=True,
)
def two_kinds_of_torch(graph: LinkGraph) -> Iterator[Finding]:
    """Compare what the objects of each process need, and the libraries of a torch among them."""
    reported: list[set[str]] = []
    for process in processes(graph):
        needs = {
            kind: sorted((o.wheel, o.file) for o in process.objects if names & {*o.needed, o.soname, o.name})
            for kind, names in _OF_TORCH.items()
        }
        files = {file for found in needs.values() for _, file in found}
        if not all(needs.values()) or any(files <= known for known in reported):
            continue
        reported.append(files)
        wheel = process.blamed(sorted({wheel for found in needs.values() for wheel, _ in found}))
        yield two_kinds_of_torch.finding(
            wheel,
            tuple(
                Subject(file=file, item=kind, wheel=of) for kind, found in needs.items() for of, file in found
            ),
            across=process.across,
        )


@rule(
    "GF413",
    "warning",
    "HIP kernels in one file are compiled for different GPUs",
    what="Some HIP kernels have no code for GPUs that other kernels in the same file support.",
    why="A launch of such a kernel fails there with hipErrorNoBinaryForGpu.",
    fix="Compile all sources with one list of GPUs (CMAKE_HIP_ARCHITECTURES, PYTORCH_ROCM_ARCH).",
)
def hip_targets(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare the bundles of each file: the runtime looks for a kernel in its own bundle alone."""
    for each in wheel.linked:
        counts = Counter(target for bundle in each.hip for target in bundle.targets)
        total = sum(bool(bundle.targets) for bundle in each.hip)
        for target, count in sorted(counts.items()):
            if count < total:
                facts = facts_of(having=count, total=total)
                yield Subject(each.file, item=target, detail="in {having} of {total} bundles", facts=facts)
