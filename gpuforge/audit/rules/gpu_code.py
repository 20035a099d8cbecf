"""GF4xx: GPU code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.installed import cuda_major
from gpuforge.audit.model import PACKAGES, WheelFacts
from gpuforge.audit.reach import Reach, reach, reach_apart
from gpuforge.audit.rules.containers import (
    coverage,
    has_kernels,
    is_relocatable,
    is_specific,
    of_archs,
    own_code,
    to_compare,
)
from gpuforge.audit.rules.recognise import is_nvidia_wheel
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.facts import DeviceCode, FatbinContainer, FatbinEntry
from gpuforge.binary.runnable import (
    EMPTY_PTX,
    bearing_ptx,
    compiled,
    complete_ptx,
    not_linked,
    portable_ptx,
    runnable,
)
from gpuforge.cuda import releases
from gpuforge.cuda.releases import generations
from gpuforge.cuda.suffix import major_of_local, major_of_suffix
from gpuforge.cuda.version import major_of
from gpuforge.runtime.arch import Arch

if TYPE_CHECKING:
    from gpuforge.expectation import Expectation


@rule("GF401", "error", "a declared GPU architecture is not in every fatbin container")
def architectures_missing(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare each container with the manifest's architectures; a union over containers proves nothing.

    A container with PTX or LTO-IR only lacks all of them.
    """
    expectation = graph.expectation_of(wheel)
    if expectation is None or not (expectation.cubins or expectation.ptx):
        return
    own = list(of_archs(expectation, wheel))
    sets = set(expectation.kernel_sets) - expectation.targets.keys()
    if not any(map(has_kernels, own)) and (sets or not expectation.source_sets):
        others = "" if sets or not expectation.targets else " but that of toolchains with `targets`"
        yield architectures_missing.finding(
            wheel.name,
            Subject(detail="the whole wheel"),
            cause=("nothing", others),
            what=f"The manifest declares GPU architectures, and the wheel contains no GPU code of its own{others}.",
            why="Users get a package without kernels: some builds skip them without an error when they find "
            "no compiler."
            if not others
            else "What should be compiled for `archs` is missing, or nothing should.",
            fix="Check in the log of the host build that it compiles its kernels. If nothing is compiled for "
            "`archs`, write archs = [] in the [cuda.*] tables.",
        )
    for code in own:
        judged, _ = to_compare(expectation, code)
        for arch in expectation.cubins:
            lacking = sum(arch not in c.cubins for c in judged)
            if lacking:
                total = len(judged)
                detail, facts = coverage(total - lacking, total)
                yield architectures_missing.finding(
                    wheel.name,
                    Subject(file=code.file, item=arch.sm, detail=detail, facts=facts),
                    what="Declared GPU architectures are missing in the wheel.",
                    why="GPUs of these architectures run the kernels by JIT compilation of PTX, or not at all.",
                    fix="Pass the declared architectures to the build (CMAKE_CUDA_ARCHITECTURES), or declare the "
                    "architectures that it uses.",
                )


@rule(
    "GF402",
    "error",
    "the declared PTX is not in every fatbin container",
    what="Declared PTX is missing in the wheel.",
    why="GPUs newer than the architectures in the wheel cannot run these kernels.",
    fix="Compile with -gencode arch=compute_X,code=compute_X, too (CMAKE_CUDA_ARCHITECTURES: X-virtual).",
)
def ptx_missing(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare each container with the manifest's PTX.

    Relocatable device code keeps its PTX in the inputs of the device link, not in the result (nvcc manual, "Using
    Separate Compilation in CUDA"). There the inputs are judged, and the containers with PTX of their own.
    """
    expectation = graph.expectation_of(wheel)
    if expectation is None or not expectation.ptx:
        return
    for code in own_code(wheel):
        judged = bearing_ptx(*to_compare(expectation, code))
        for arch in expectation.ptx:
            if lacking := sum(arch not in {e.arch for e in complete_ptx(c)} for c in judged):
                detail, facts = coverage(len(judged) - lacking, len(judged))
                yield Subject(file=code.file, item=arch.compute, detail="PTX " + detail, facts=facts)


_NO_IMAGE = "`no kernel image is available for execution on the device`"


@rule(
    "GF403",
    "error",
    "newer GPUs cannot run the kernels: there is no PTX",
    fix="Add PTX of the newest architecture in the file that is older than the missing GPUs (-gencode "
    "arch=compute_X,code=compute_X). Machine code for the missing GPUs alone leaves out later ones.",
)
def newer_gpus(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find files without kernels for newer generations: a warning for GPUs of today, for information for later ones.

    An error if the whole wheel has nothing for any GPU of a generation. PTX serves no GPU older than itself: machine
    code for much older ones leaves a gap.
    """
    expectation = graph.expectation_of(wheel)
    if expectation is not None and expectation.cubins:
        return  # GF401 and GF402 compare with the manifest instead
    processor = wheel.machine
    supported = {
        r.generation.family for code in own_code(wheel) for r in reach(code, processor) if r.native or r.jit
    }
    for code in own_code(wheel):
        if code.file.endswith(".cubin"):
            continue  # one target each; the program chooses one of these files by name
        judged, inputs = runnable(code.containers)
        if not judged or all(is_specific(c) for c in judged):
            continue
        portable = all(map(portable_ptx, bearing_ptx(judged, inputs))) and not not_linked(judged, inputs)
        gaps = (r for table in reach_apart(code, processor) for r in _lost(table))
        if portable and all(r.generation.machines for r in gaps):  # of Jetsons, at most
            continue
        yield from _judge(wheel, code, processor, supported)


def _lost(table: Sequence[Reach]) -> list[Reach]:
    """Return the GPUs without any code that are newer than one that has some."""
    first = next((i for i, r in enumerate(table) if r.way != "none"), len(table))
    return [r for r in table[first:] if r.way == "none"]


def _judge(
    wheel: WheelFacts, code: DeviceCode, processor: str, supported: Collection[str]
) -> Iterator[Finding]:
    table = reach(code, processor)
    lost = _lost(table)
    partly = [r for r in table if r.way == "partly"]
    cause: tuple[str, ...]
    if lost:
        whole = wheel.form in PACKAGES  # other files may have the rest
        missing = dict.fromkeys(f for r in lost if whole and (f := r.generation.family) not in supported)
        cause, text = tuple(missing), _LOST_BY_ALL if missing else _LOST
        detail, facts = (
            "{archs}; nothing for {lacking:GPUs}",
            facts_of(archs=_archs(code), lacking=_gpus(lost)),
        )
    elif partly:
        worst = max(partly, key=lambda r: r.none)
        cause, text = ("some containers",), _PARTLY
        detail = "some fatbin containers do not run on {lacking:GPUs}: at most {count} of {total}, on {worst}"
        total = worst.none + worst.native + worst.jit
        facts = facts_of(
            lacking=_gpus(partly), worst=worst.generation.capability, count=worst.none, total=total
        )
    else:
        cause, text = ("future GPUs",), _FUTURE
        detail, facts = "{archs}", facts_of(archs=_archs(code))
    text = text.filled(families=" or ".join(cause))
    subject = Subject(file=code.file, detail=detail, facts=facts)
    yield newer_gpus.finding(wheel.name, subject, text=text, cause=cause)


_LOST_BY_ALL = Text(
    "The wheel has neither machine code nor PTX for {families} GPUs.",
    f"A launch fails there with {_NO_IMAGE}.",
    newer_gpus.text.fix,
    "error",
)
_LOST = Text(
    "Kernels have neither machine code nor PTX for newer GPUs.",
    _LOST_BY_ALL.why,
    newer_gpus.text.fix,
    "warning",
)
_PARTLY = Text(
    "Some kernels have no code for GPUs that other kernels in the same file support.",
    f"A launch of such a kernel fails there with {_NO_IMAGE}.",
    newer_gpus.text.fix,
    "info",
)
_FUTURE = Text(
    "Some kernels have no PTX for future GPUs.",
    f"A launch on a GPU of a later generation fails with {_NO_IMAGE}.",
    newer_gpus.text.fix,
    "info",
)


def _archs(code: DeviceCode) -> tuple[str, ...]:
    judged, _ = runnable(code.containers)
    every = sorted({(e.kind, e.arch) for c in judged for e in c.entries if e.kind in {"cubin", "ptx"}})
    return tuple(arch.of_image(kind) for kind, arch in every)


def _gpus(table: Sequence[Reach]) -> tuple[tuple[str, str], ...]:
    return tuple((r.generation.capability, r.generation.name) for r in table)


@rule(
    "GF404",
    "info",
    "device code is for single architectures (a) or families (f) alone",
    what="Kernels are compiled only for single architectures (a) or families (f).",
    why="They run on these GPUs only. PTX for such a target has the same limit.",
    fix="None needed if the kernels use features of these GPUs and other GPUs have kernels of their "
    "own. Otherwise compile for the plain architecture, too.",
)
def specific_targets(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find containers that have only `a` and `f` targets: no later GPU runs them, not even by JIT."""
    expectation = graph.expectation_of(wheel)
    if expectation is not None and expectation.cubins:
        return  # GF401 and GF402 compare with the manifest instead
    for code in own_code(wheel):
        judged, _ = runnable(code.containers)
        found = [c for c in judged if is_specific(c)]
        if found:
            archs = tuple(sorted({e.target for c in found for e in c.entries}))
            detail = "only {archs}" if len(judged) == 1 else "only {archs} in {count} of {total} containers"
            facts = facts_of(count=len(found), total=len(judged), archs=archs)
            yield Subject(file=code.file, detail=detail, facts=facts)


@rule(
    "GF405",
    "warning",
    "the embedded PTX is empty",
    what="Fatbin containers have machine code with kernels, and PTX without any.",
    why="The driver compiles that PTX for a newer GPU and finds no kernel.",
    fix="Find what removed the code, such as an #if on __CUDA_ARCH__ that excludes the PTX target.",
)
def ptx_empty(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find containers whose PTX has only its version and target, while their cubins have code."""
    for code in own_code(wheel):
        judged, inputs = runnable(code.containers)
        if count := sum(map(_empty, (*judged, *inputs))):
            facts = facts_of(count=count, total=len(judged) + len(inputs))
            yield Subject(file=code.file, detail="{count} of {total} containers", facts=facts)


def _empty(container: FatbinContainer) -> bool:
    if container.empty is None:  # the machine code may be empty, too
        return False
    ptx = [e for e in container.entries if e.kind == "ptx"]
    return bool(ptx) and all(e.size < EMPTY_PTX for e in ptx)


@rule(
    "GF406",
    "info",
    "one file has device code of several CUDA toolkits",
    what="Files contain GPU code of several CUDA toolkits.",
    why="Users need a driver for the newest of them: PTX needs a driver as new as its toolkit, machine "
    "code any driver for its CUDA major.",
    fix="None needed if static libraries of NVIDIA are linked in. Otherwise compile all sources with "
    "one toolkit.",
)
def mixed_toolkits(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare the toolkits that wrote the machine code of each file, and those that wrote its PTX.

    Machine code and PTX are not compared: clang writes PTX of an older ISA than that of the toolkit whose ptxas it
    runs.
    """
    for code in own_code(wheel):
        found = [counts for kind in ("cubin", "ptx") if len(counts := _toolkits(code, kind)) > 1]
        if found:
            images = tuple(row for counts in found for row in sorted(counts.items()))
            yield Subject(file=code.file, detail="{images:images}", facts=facts_of(images=images))


def _toolkits(code: DeviceCode, kind: str) -> Counter[str]:
    """Count the images of a kind by the toolkit that wrote them, if it is known."""
    images = [e for c in code.containers for e in c.entries if e.kind == kind]
    if kind == "ptx":
        return Counter(f"PTX of {_by_isa().get(e.isa, f'ISA {e.isa}')}" for e in images)
    return Counter(f"machine code of CUDA {e.toolkit}" for e in images if e.toolkit)


@cache
def _by_isa() -> Mapping[str, str]:
    """Return the releases that write each PTX ISA: "CUDA 12.4", "CUDA 12.5/12.6"."""
    found: dict[str, str] = {}
    rows = [(r.ptx, r.version) for r in releases.former()] + [(r.ptx, r.version) for r in releases.releases()]
    for isa, version in rows:
        known = found.get(isa)
        found[isa] = f"{known}/{version}" if known else f"CUDA {version}"
    return found


_LEAST = 32 << 20  # bytes; less does not justify another build, as PTX for newer GPUs is there, too
_SHARE = 0.1  # of the file


@rule(
    "GF407",
    "warning",
    "the inputs of the device link are left in the file beside its result",
    what="The inputs of the device link (__nv_relfatbin) are still in the file, beside its result.",
    why="Users download the machine code twice, and only the PTX of the inputs can ever be used.",
    fix="Compile without relocatable device code (CUDA_SEPARABLE_COMPILATION OFF) if kernels do not "
    "call across files. Otherwise pack the inputs: nvcc --compress-mode=size (with CUDA 12, see GF411).",
)
def relocatable_left(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Add up the containers in `__nv_relfatbin` of files that have a linked one, too."""
    for code in own_code(wheel):
        left = sum(c.size for c in code.containers if is_relocatable(c))
        whole = wheel.members.get(code.file, 0)
        linked = any(not is_relocatable(c) for c in code.containers)
        if linked and left >= max(_LEAST, _SHARE * whole):
            facts = facts_of(left=left, whole=whole)
            yield Subject(file=code.file, detail="{left:MiB} of {whole:MiB} MiB", facts=facts)


@rule(
    "GF408",
    "info",
    "some GPUs run the device code by JIT alone, with a newer driver",
    what="Some GPUs run these kernels only by JIT compilation of PTX.",
    why="The first launch is slow there, and the driver must be as new as the toolkit that wrote the PTX.",
    fix="None needed if that is acceptable. Otherwise add machine code for these architectures.",
)
def jit_only(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find the generations that have to compile PTX, and the oldest driver that can."""
    expectation = graph.expectation_of(wheel)
    if expectation is not None and expectation.cubins:
        return  # GF401 and GF402 compare with the manifest instead
    for code in own_code(wheel):
        table = reach(code, wheel.machine)
        jit = tuple((r.generation.capability, r.driver) for r in table if r.jit)
        if jit and any(r.native for r in table) and not code.file.endswith(".ptx"):
            yield Subject(file=code.file, detail="{drivers:drivers}", facts=facts_of(drivers=jit))


@rule("GF409", "error", "GPU code that the manifest does not declare")
def undeclared_code(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find GPU code where the manifest declares none, and architectures that it does not list.

    With CUDA's static libraries (`linkage = "static"`) containers also have the architectures that NVIDIA chose.
    """
    expectation = graph.expectation_of(wheel)
    if expectation is None or not (expectation.no_code or expectation.exact):
        return
    for code in of_archs(expectation, wheel):
        for target, count, total in _undeclared(code, expectation):
            yield undeclared_code.finding(
                wheel.name,
                Subject(
                    file=code.file,
                    item=target,
                    detail="in {count} of {total} containers",
                    facts=facts_of(count=count, total=total),
                ),
                text=_NONE if expectation.no_code else _OTHERS,
            )


_NONE = Text(
    "The wheel contains GPU code, and the manifest declares none (archs = []).",
    "Users download GPU code that nobody meant to ship.",
    "List the architectures in [cuda.*] archs, or keep the code out of the wheel.",
    "error",
)
_OTHERS = Text(
    "The wheel has GPU code for architectures that the manifest does not declare.",
    "The wheel is larger than necessary, and runs on GPUs that nobody tested.",
    "List them in [cuda.*] archs or ptx, or stop the build from adding architectures of its own "
    "(CMAKE_CUDA_ARCHITECTURES).",
    "warning",
)


def _undeclared(code: DeviceCode, expectation: Expectation) -> Iterator[tuple[str, int, int]]:
    """Yield each undeclared architecture, the number of containers with code for it, and of all containers.

    LTO-IR and images of unknown kinds count only where no code is declared: no GPU runs them by themselves.
    """
    judged, inputs = compiled(code.containers)
    containers = [*judged, *inputs]
    counts = Counter(image for container in containers for image in _images(container))
    declared = {("cubin", arch) for arch in expectation.cubins} | {("ptx", arch) for arch in expectation.ptx}
    for (kind, arch), count in sorted(counts.items()):
        if expectation.no_code or (kind in {"cubin", "ptx"} and (kind, arch) not in declared):
            name = arch.of_image(kind) if kind in {"cubin", "ptx"} else f"{kind} {arch.compute}"
            yield name, count, len(containers)


def _images(container: FatbinContainer) -> set[tuple[str, Arch]]:
    """Return the kinds and architectures of a container's images, without empty PTX."""
    ptx = {e.arch for e in complete_ptx(container)}
    return {(e.kind, e.arch) for e in container.entries if e.kind != "ptx" or e.arch in ptx}


_ASSEMBLER = r"ptxas([-_.]\w+)*"  # the tool that decides for which GPUs code can be made


@rule(
    "GF410",
    "warning",
    "a compiler in the wheel does not know GPUs of today",
    what="A ptxas in the wheel is older than GPUs of today.",
    why="Code that the wheel compiles on the user's machine fails there: ptxas does not know the value of its "
    "option 'gpu-name'.",
    fix="Take ptxas from a newer toolkit, or require NVIDIA's package of it (nvidia-cuda-nvcc).",
    applies_to=PACKAGES,
)
def tool_outdated(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare the targets of each ptxas with the GPUs of today; a wheel with several may have one for each."""
    tools = [o for o in wheel.objects if o.release and re.fullmatch(_ASSEMBLER, o.name)]
    if not tools or is_nvidia_wheel(wheel):
        return
    targets = [_targets(tool.release) for tool in tools]
    every = frozenset[Arch]().union(*targets)
    today = releases.releases()[-1].archs  # without the generations that toolkits have dropped
    newer = [g for g in generations(wheel.machine) if Arch.parse(g.capability) in {*today} - every]
    if newer and all(targets):
        for tool in tools:
            facts = facts_of(release=tool.release, lacking=tuple((g.capability, g.name) for g in newer))
            yield Subject(file=tool.file, detail="of CUDA {release}; no code for {lacking:GPUs}", facts=facts)


def _targets(release: str) -> frozenset[Arch]:
    """Return the targets of a toolkit, those of its major that are older included; empty for an unknown one."""
    return next((frozenset(r.archs) for r in releases.releases() if r.version == release), frozenset())


@rule(
    "GF411",
    "warning",
    "GPU code is packed in a way that needs a newer driver than its CUDA release",
    fix="Compile with nvcc --compress-mode=speed, or document the driver.",
)
def packed_code(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find zstd in code of a CUDA major whose oldest driver does not know it."""
    for code in own_code(wheel):
        packed = [e for c in code.containers for e in c.entries if e.compression == "zstd"]
        floor = _floor(wheel, code, packed) if packed else ""
        if floor and releases.parsed(floor) < releases.parsed(releases.driver_of_zstd()):
            yield packed_code.finding(
                wheel.name,
                Subject(
                    file=code.file,
                    detail="{count} of {total} images",
                    facts=facts_of(count=len(packed), total=sum(len(c.entries) for c in code.containers)),
                ),
                cause=(floor,),
                what=f"GPU code is packed with zstd, and drivers before {releases.driver_of_zstd()} cannot "
                "unpack it.",
                why=f"CUDA of this release works with driver {floor} and newer; a launch with a driver in between "
                "fails.",
            )


def _floor(wheel: WheelFacts, code: DeviceCode, packed: list[FatbinEntry]) -> str:
    """Return the oldest driver for a CUDA major: that of the toolkit of the images, or else of the wheel."""
    toolkits = {e.toolkit for e in packed if e.toolkit}
    own = next((o for o in wheel.objects if o.file == code.file), None)
    majors = {major_of(toolkit) for toolkit in toolkits} or {
        major
        for major in (
            cuda_major(own.needed) if own else None,
            major_of_suffix(wheel.project),
            major_of_local(wheel.version),
        )
        if major
    }
    return releases.driver_of_cubins({f"{min(majors)}.0"}, ()) if majors else ""
