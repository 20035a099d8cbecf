"""Proofs as lines of text, for every renderer."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuforge.audit.proofs import proof
from gpuforge.audit.report.sentences import route
from gpuforge.cuda.provided import Floor, reason

if TYPE_CHECKING:
    from gpuforge.audit.against import Against

_NAMED = 3
_PLACES: dict[proof.FoundIn, str] = {
    "wheel": "in the wheel",
    "sibling": "in a wheel beside it",
    "package": "from other packages",
    "machine": 'from the CUDA of the machine (linkage = "system")',
    "system": "from the system",
    "driver": "from the driver",
}
_CONTAINERS: dict[proof.Code, str] = {
    "fatbin": "fatbin containers",
    "cubin": "cubin files",
    "ptx": "PTX texts",
}


def text(proved: proof.Proof) -> str:
    """Write a proof as a line, without its topic."""
    match facts := proved.facts:
        case proof.LibrariesFound() | proof.OfPackage():
            return _providers(facts)
        case Floor() | proof.Forgotten() | proof.Complete():
            return _requirements(facts)
        case proof.GpuCode():
            return _gpu_code(facts)
        case proof.TagsHold() | proof.NoPromise():
            return _platform(facts)
        case proof.NoGpuCode():
            return _host_only(facts)
        case proof.KernelSetsMatch(names, unread):
            but = f"; of images of {', '.join(unread)} only the files were compared" if unread else ""
            return f"{', '.join(names)}: files and images match the index{but}"
        case proof.SourceSetsMatch(names):
            return f"{', '.join(names)}: files match the recipe"
        case proof.NoUnstableFunctions(package):
            return f"{package}: none of its functions that change with each release is used"
        case proof.NoSecondCopies():
            return _against(facts.against, facts.unsearched)
        case proof.FitsBeside(count, requirement):
            what = f"{requirement}: " if requirement else ""
            return f"{what}no conflict with {count} package{'s' if count != 1 else ''} in one process"


def _providers(found: proof.LibrariesFound | proof.OfPackage) -> str:
    if isinstance(found, proof.OfPackage):
        extra = f" (extra {found.extra})" if found.extra else ""
        package = found.route.package
        way = _once((package,)) if package else f"by {route(found.route)}"
        return f"{', '.join(found.libraries)} ← {found.package}{extra}, {way}"
    counts = [f"{found.counts[place]} {words}" for place, words in _PLACES.items() if place in found.counts]
    once = f", {_once(found.imports)}" if found.imports else ""
    return f"every NEEDED library is found{once}: {', '.join(counts) or 'none is needed'}"


def _once(packages: Sequence[str]) -> str:
    return f"once {' and '.join(packages)} {'is' if len(packages) == 1 else 'are'} imported"


def _requirements(proved: Floor | proof.Forgotten | proof.Complete) -> str:
    match proved:
        case Floor():
            return reason(proved)
        case proof.Forgotten(package, by):
            return f"{package} is for {by}, which needs it and does not declare it"
        case proof.Complete(releases):
            return f"no undeclared CUDA library is needed by {', '.join(map(str, releases))}"


def _gpu_code(proved: proof.GpuCode) -> str:
    declared = " as declared" if proved.as_declared else ""
    alike = "; ".join(f"{count} of {_images(images)}" for images, count in proved.images.items())
    return f"{_CONTAINERS[proved.kind]}{declared}: {alike}"


def _images(container: proof.ContainerCode) -> str:
    """Write the code in a container: "sm_80 sm_90 + compute_90 (PTX 8.7)", "sm_80, no PTX", "LTO-IR of compute_75"."""
    native = " ".join(arch.sm for arch in container.native)
    ptx = ", ".join(f"{target} (PTX {isa})" for target, isa in container.ptx)
    lto = f"LTO-IR of {' '.join(arch.compute for arch in container.lto)}" if container.lto else ""
    unknown = f"unknown images ({', '.join(container.unknown)})" if container.unknown else ""
    joined = " + ".join(filter(None, (native, ptx, lto, unknown)))
    return joined if ptx or not native else f"{joined}, no PTX"


def _platform(proved: proof.TagsHold | proof.NoPromise) -> str:
    versions = (
        f"{name} {version} ({posixpath.basename(file)})" for name, (version, file) in proved.highest.items()
    )
    highest = f"highest required: {', '.join(versions)}"
    match proved:
        case proof.TagsHold(tags):
            return f"{', '.join(tags)} {'hold' if len(tags) > 1 else 'holds'}; {highest}"
        case proof.NoPromise(tag, ""):
            return f"{tag} promises nothing; no manylinux policy has it all; {highest}"
        case proof.NoPromise(tag, name):
            return (
                f"{tag} promises nothing; {name} has the glibc and libstdc++ that the objects need; {highest}"
            )


def _host_only(proved: proof.NoGpuCode) -> str:
    counts = [(proved.objects, "object"), (proved.members, "archive member")]
    count = " and ".join(f"{n:,} {what}{'s' if n > 1 else ''}" for n, what in counts if n)
    files = ", ".join(map(posixpath.basename, proved.files[:_NAMED])) + " …" * (len(proved.files) > _NAMED)
    needs = f" but {', '.join(proved.needs)}" if proved.needs else ""
    opens = (
        f"; named in strings, so that code may open them: {', '.join(proved.opens)}" if proved.opens else ""
    )
    others = (
        f"; what libraries outside of the wheel load was not read: {', '.join(proved.others)}"
        if proved.others
        else ""
    )
    return (
        f"{proved.object}: {count} read completely ({files}): "
        "no GPU code in a known format (packed data was not unpacked), no trace of a GPU compiler, "
        f"no library of a GPU stack NEEDED{needs}{opens}{others}"
    )


def _against(brought: Against, unsearched: Sequence[str]) -> str:
    count = len(brought.libraries)
    libraries = f"{count} {'library' if count == 1 else 'libraries'}"
    known = (
        f"the {libraries} that releases of {brought.compiler} have"
        if brought.compiler
        else f"its {libraries}"
    )
    names = ", ".join(map(posixpath.basename, unsearched))
    but = f"; not all constants of {names} were searched for names of libraries" if unsearched else ""
    return f"{brought.label}: the wheel loads no second copy of {known}{but}"
