"""GF103: a statically linked CUDA runtime beside another copy of it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.nvidia import is_nvidia_library
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.cudart import loaded_cudarts
from gpuforge.audit.rules.runtimes.loaded import LoadedLibrary
from gpuforge.audit.rules.runtimes.processes import Process, processes
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda.libraries import is_cudart
from gpuforge.embedded import layout

_KERNELS = f"/{layout.kernels(layout.HOME)}/"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects with a static libcudart beside a shared one (a warning in one import), or beside each other.

    A kernel set's library always shares a process with the wheel's own code, so there it is a warning, too. NVIDIA's
    own libraries contain it by design: they hide its symbols and never share its state.
    """
    reported: list[set[str]] = []
    for process in processes(graph):
        static = [o for o in process.objects if o.has_static_cudart and not is_nvidia_library(graph, o)]
        copies = loaded_cudarts(graph, process.objects)
        names = {o.file for o in static} | {i.origin.name for i in copies}
        if not static or len(names) < 2 or any(names <= known for known in reported):
            continue
        reported.append(names)
        yield _finding(process, static, copies, mixed=_with_kernels(process, static, copies))


RULE = Rule(
    code="GF103",
    severity="warning",
    title="a static CUDA runtime and another copy of it would be loaded into one process",
    check=check,
    of_process=True,
)


def _with_kernels(process: Process, static: list[ElfObject], copies: list[LoadedLibrary]) -> bool:
    """Return whether a kernel set's library has another CUDA runtime than its wheel's other objects."""
    files = [*(o.file for o in static), *(copy.loader for copy in copies)]
    return process.scope == "wheel" and any(_KERNELS in f"/{file}" for file in files)


def _finding(
    process: Process, static: list[ElfObject], shared: list[LoadedLibrary], *, mixed: bool
) -> Finding:
    # an object that needs the shared one, too, got its own from a static library of NVIDIA, not on purpose
    chosen = [o for o in static if not any(map(is_cudart, o.needed))]
    serious = (process.scope == "import" or mixed) and bool(shared) and bool(chosen)
    wheel = process.blamed([o.wheel for o in static])
    own = [o for o in static if o.wheel == wheel]
    return RULE.finding(
        wheel,
        across=process.across,
        severity="warning" if serious else "info",
        files=tuple(o.file for o in own),
        subjects=(
            *(Subject(file=o.file, detail="static", wheel=o.wheel) for o in static),
            *(library.subject() for library in shared),
        ),
        cause=(mixed,),
        what="A kernel library and the rest of the wheel have different CUDA runtimes, one of them linked "
        "statically."
        if serious and mixed
        else "One import loads a statically linked CUDA runtime and another copy of it."
        if serious
        else "Several CUDA runtimes can be in one process, and some of them are linked statically.",
        why="Each has its own last error and registered kernels.",
        fix="Let gpuforge choose the runtime: remove -cudart from the flags in gpuforge.toml, and "
        "CUDA_RUNTIME_LIBRARY from the host build."
        if serious and mixed
        else "Use the shared libcudart in all objects that share device state (nvcc --cudart=shared). "
        "None needed if they share only pointers, streams and events.",
    )
