"""All facts of one wheel: its metadata, its code and indexes, and its scanned binaries."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from packaging.tags import Tag
from packaging.utils import canonicalize_name

from gpuforge.audit.layout import left_over_folder
from gpuforge.audit.model import ARCHIVES, AS_BUILT, PACKAGES, Contents, WheelFacts, machine_of
from gpuforge.audit.read import build_files, contents, embedded, loading_code
from gpuforge.audit.read.framework_imports import framework_imports, imported_first
from gpuforge.audit.read.scan_pe import loads_dlls
from gpuforge.binary.facts import DeviceCode
from gpuforge.errors import MalformedError
from gpuforge.wheel import filename
from gpuforge.wheel.archive import info_folders
from gpuforge.wheel.checks import Refusal, archive, content
from gpuforge.wheel.dist_info import DistInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuforge.audit.read.scan import Scanned
    from gpuforge.audit.read.wheel import OpenWheel
    from gpuforge.wheel.archive import Member

_LEAST = 16  # bytes behind the end of an object that may be code
_MOST = 200  # members of a kind of refusal that are named


def facts(wheel: OpenWheel) -> WheelFacts:
    """Return the facts of an open wheel, whose binaries threads read meanwhile. Raises MalformedError if it is none."""
    source, archive, info = wheel.source, wheel.archive, _dist_info(wheel)
    project, version, tags = _claims(wheel, info)
    code = loading_code.PythonCode(archive)
    others = _others(wheel, code)
    loading, imports = _python(wheel, info, code)
    scanned = [s for s in wheel.scanned() if _is_judged(wheel, s.file)]
    objects = tuple(s.object for s in scanned if s.object)
    linked = any(o.links for o in objects)
    return WheelFacts(
        name=source.label,
        size=source.size or sum(m.size for m in archive.members),
        project=project,
        version=version,
        file_tags=tags,
        wheel_tags=info.tags,
        requires=info.requires,
        extras=info.extras,
        python=info.requires_python,
        members={m.name: m.size for m in archive.members},
        checksums={m.name: m.crc for m in archive.members},
        purelib_lines=info.purelib_lines,
        build_compilers=build_files.compilers(archive),
        build_paths=build_files.build_paths(archive),
        loader_files=build_files.opened(archive) if linked else frozenset(),
        cuda_release=loading_code.cuda_release(code),
        record=info.record,
        objects=objects,
        pe=tuple(s.pe for s in scanned if s.pe),
        loads_dlls=any(s.pe for s in scanned) and loads_dlls(archive),
        device=tuple(DeviceCode(s.file, s.containers) for s in scanned if s.containers),
        kernels=tuple(embedded.kernel_sets(archive)),
        sources=tuple(embedded.source_sets(archive)),
        kernels_listing=embedded.kernels_listing(archive),
        kernels_description=embedded.kernels_description(archive),
        preloads=tuple(p for p in loading.preloads if linked and _is_judged(wheel, p.file)),
        openers=() if wheel.binaries else loading.preloads,
        launchers=tuple(each for each in loading.launchers if linked and _is_judged(wheel, each.file)),
        compares_cuda=loading.compares_cuda if linked else {},
        imports=imports,
        nvidia_modules=loading.nvidia_modules,
        imported_first=imported_first(code) if imports else frozenset(),
        metadata_problems=info.problems,
        identities=info.identities,
        damaged={s.file: s.problem for s in scanned if s.problem} | (code.damaged if linked else {}),
        corrupt=frozenset(s.file for s in scanned if s.corrupt) | (code.corrupt if linked else set()),
        contents=_contents(wheel, others, scanned),
        form=source.form,
        neighbour=source.neighbour,
        links=info.links,
        refusals=_refusals(wheel, info),
        machine=machine_of(tags, objects),
        rehashed=_rehashed(wheel, info) if source.hashes else (),
    )


def _python(
    wheel: OpenWheel, info: DistInfo, code: loading_code.PythonCode
) -> tuple[loading_code.Loading, Mapping[str, str]]:
    """Read what Python files load; of a wheel without binaries only if it requires CUDA's runtime."""
    cudart = ("nvidia-cuda-runtime", "cuda-toolkit")
    if wheel.binaries:
        return loading_code.loading(code), framework_imports(code)
    opens = any(canonicalize_name(line).startswith(cudart) for line in info.requires)
    return loading_code.loading(code) if opens else loading_code.Loading(), {}


def _others(wheel: OpenWheel, code: loading_code.PythonCode) -> contents.Reader:
    """Read the files that are no binaries, for the proofs about those; of a neighbour nothing is proved.

    Files of gpuforge's runtime are known: one has the patterns by which `compile` finds GPU code.
    """
    reader = contents.Reader(wheel.archive.budget)
    if not wheel.binaries or wheel.source.neighbour or wheel.source.remote:
        return reader
    binaries = {member.name for member in wheel.binaries}
    for member in wheel.archive.members:
        known = member.name in binaries or code.is_of_runtime(member)
        if member.packed and not known and _is_judged(wheel, member.name):
            reader.add(member.name, _content(wheel, reader, member))
    return reader


def _contents(wheel: OpenWheel, reader: contents.Reader, scanned: Sequence[Scanned]) -> Contents:
    """Return what was read, with files that are binaries by their names only, and those with PTX in no constant."""
    members = {member.name: member for member in wheel.binaries}
    for each in scanned:
        if each.hidden:
            reader.add_code(each.file)
        elif each.object and each.object.behind > _LEAST:
            reader.add(each.file, None)
        elif not (
            each.object
            or each.pe
            or each.problem
            or (each.containers and not each.is_archive)
            or each.file.endswith(".vmfb")
        ):
            reader.add(each.file, _content(wheel, reader, members[each.file]))
    return reader.contents()


def _content(wheel: OpenWheel, reader: contents.Reader, member: Member) -> bytes | None:
    """Return the bytes of a file; None if it is damaged, or more than is read of these files."""
    try:
        return wheel.archive.data(member) if reader.fits(member.size) else None
    except MalformedError:
        return None


def _is_judged(wheel: OpenWheel, file: str) -> bool:
    """Return whether a file is part of the package; of binaries alone, any folder may be the one to judge."""
    return wheel.source.form not in PACKAGES or not left_over_folder(file)


def _claims(wheel: OpenWheel, info: DistInfo) -> filename.Claims:
    """Return the project, the version and the tags of an input, by its name if that has them."""
    if wheel.source.form in ARCHIVES:
        variant = f"{info.folder}.dist-info/variant.json"
        if all(member.name != variant for member in wheel.archive.members):
            return wheel.source.claims
        return filename.claims(filename.plain_name(wheel.source.file_name))
    tags = (tag for tag in info.tags if isinstance(tag, Tag))
    return filename.Claims(info.project, info.version, tuple(tags))


def _dist_info(wheel: OpenWheel) -> DistInfo:
    if wheel.source.form not in PACKAGES:
        return DistInfo()
    folders = info_folders(wheel.archive)
    if not folders:
        raise MalformedError.of("it is a zip file but no wheel: it has no .dist-info folder")
    return DistInfo.of(wheel.archive, folders)


def _rehashed(wheel: OpenWheel, info: DistInfo) -> tuple[str, ...]:
    if info.record is None or wheel.source.form not in AS_BUILT:
        return ()
    return tuple(content.differing(wheel.archive, f"{info.folder}.dist-info/RECORD"))


def _refusals(wheel: OpenWheel, info: DistInfo) -> tuple[Refusal, ...]:
    """Return the reasons for which indexes and installers refuse the archive, each with its first members."""
    if wheel.source.form not in ARCHIVES:
        return ()
    found = [*archive.check(wheel.archive), *content.check(wheel.archive, info, wheel.source.file_name)]
    counts = Counter(refusal.kind for refusal in found)
    seen: Counter[str] = Counter()
    kept = []
    for refusal in found:
        seen[refusal.kind] += 1
        if seen[refusal.kind] <= _MOST:
            kept.append(refusal)
    more = ((kind, count - _MOST) for kind, count in counts.items() if count > _MOST)
    return (*kept, *(Refusal(kind, facts={"count": count}, case="more") for kind, count in more))
