"""Selects the containers of a file that a GPU runs, and their PTX that later GPUs can run.

Containers that are linked: nvcc manual, "Using Separate Compilation in CUDA".
"""

from collections.abc import Iterable, Sequence

from gpuforge.binary.facts import FatbinContainer, FatbinEntry
from gpuforge.runtime.values import kind_of

EMPTY_PTX = 120  # bytes; a PTX text with only .version, .target and .address_size is shorter


def runnable(containers: Iterable[FatbinContainer]) -> tuple[list[FatbinContainer], list[FatbinContainer]]:
    """Return the containers that GPUs run, and the inputs of a device link whose PTX may replace its result.

    The inputs of a device link (`__nv_relfatbin`) do not run if its result is there. Containers without any kernel are
    left out: their source has none. So are those of LTO-IR alone, which runs only after another link.
    """
    return _by_use([c for c in containers if not (_without_kernels(c) or _is_lto(c))])


def compiled(containers: Iterable[FatbinContainer]) -> tuple[list[FatbinContainer], list[FatbinContainer]]:
    """Return the containers that should have the declared code, and the inputs of a device link.

    They are those of `runnable`, and those of LTO-IR alone: it is not the machine code or PTX that was declared.
    """
    return _by_use([c for c in containers if not _without_kernels(c)])


def _by_use(kept: Sequence[FatbinContainer]) -> tuple[list[FatbinContainer], list[FatbinContainer]]:
    inputs = [c for c in kept if c.section == "__nv_relfatbin"]
    results = [c for c in kept if c.section != "__nv_relfatbin"]
    return (results, inputs) if results else (inputs, [])


def bearing_ptx(
    judged: Sequence[FatbinContainer], inputs: Sequence[FatbinContainer]
) -> list[FatbinContainer]:
    """Return the containers that should have a file's PTX: inputs of a device link, and those that were not linked."""
    return [*inputs, *(c for c in judged if c.ptx)] if inputs else list(judged)


def not_linked(judged: Iterable[FatbinContainer], inputs: Sequence[FatbinContainer]) -> int:
    """Return the number of containers that have neither PTX nor inputs with it.

    A device link has one result, which looks like a container that was compiled without PTX.
    """
    return max(sum(not c.ptx for c in judged) - bool(inputs), 0)


def common_images(containers: Iterable[FatbinContainer]) -> list[FatbinEntry]:
    """Return the images that every container of a library has, cubins first: a GPU that runs one of them runs all.

    The PTX of relocatable code is in the inputs of its device link.
    """
    judged, inputs = runnable(containers)
    groups = [[e for e in c.entries if kind_of(e.kind).loader == "CUDA"] for c in judged]
    linked = _shared([portable_ptx(c) for c in inputs]) if inputs and not not_linked(judged, inputs) else []
    images = _shared([g if c.ptx else [*g, *linked] for c, g in zip(judged, groups, strict=True)])
    return sorted(images, key=lambda e: (e.kind, len(e.target), e.target))


def portable_ptx(container: FatbinContainer) -> list[FatbinEntry]:
    """Return the PTX that newer GPUs can run: not empty, and not for only one architecture or family."""
    return [e for e in complete_ptx(container) if not e.arch.variant]


def complete_ptx(container: FatbinContainer) -> list[FatbinEntry]:
    """Return the PTX of a container that is not empty."""
    return [e for e in container.entries if e.kind == "ptx" and e.size >= EMPTY_PTX]


def has_only_empty_cubins(container: FatbinContainer) -> bool:
    """Return whether a container has machine code without any kernel.

    Its source has no kernel, or it is the result of a link: `nvcc -shared` links the device code of all its inputs,
    and keeps a result even if there is nothing to link.
    """
    return bool(container.cubins) and _without_kernels(container)


def _without_kernels(container: FatbinContainer) -> bool:
    """Return whether a container has no kernel: its images are empty. Those of unknown kinds may have kernels."""
    kinds = {e.kind for e in container.entries}
    if complete_ptx(container) or not kinds <= {"cubin", "ptx", "lto-ir"}:
        return False
    return container.empty is True if "cubin" in kinds else "lto-ir" not in kinds


def _is_lto(container: FatbinContainer) -> bool:
    """Return whether a container has LTO-IR and no code that a GPU or the driver can use."""
    kinds = {e.kind for e in container.entries}
    return "lto-ir" in kinds and kinds <= {"lto-ir", "ptx"} and not complete_ptx(container)


def _shared(groups: Sequence[Sequence[FatbinEntry]]) -> list[FatbinEntry]:
    """Return the entries of the first group that are also in every other."""
    keys = [{(e.kind, e.arch, e.isa) for e in group} for group in groups]
    first = {(e.kind, e.arch, e.isa): e for e in groups[0]} if groups else {}
    return [entry for key, entry in first.items() if all(key in each for each in keys)]
