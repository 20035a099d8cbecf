"""Repairs a wheel by its linkage: grafts libraries, or writes RUNPATHs to those of pip packages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.cuda import libraries
from gpuforge.cuda.carried import BuildLibraries, Carried
from gpuforge.cuda.libraries import CudaLibrary
from gpuforge.cuda.linkage import Linkage
from gpuforge.cuda.version import major_of
from gpuforge.package import links, repair_checks, runpath
from gpuforge.package.graft import Log, allowed, graft
from gpuforge.wheel import unpacked
from gpuforge.wheel.filename import WheelName


class Linking(NamedTuple):
    """The linkage of a wheel with CUDA's libraries, and the other libraries that it carries.

    - `pip`: each file that needs a library of the toolkit gets a RUNPATH to the folder of its distribution;
    - `bundle`: the libraries are grafted;
    - `system`: the user's machine has them, and no RUNPATH leads there;
    - `static`: no file may need one.
    """

    cuda: str  # the toolkit: "13.0"
    linkage: Linkage
    pins: Mapping[str, str]  # distributions of the toolkit at build time: preferred if several have a library
    search_path: Sequence[Path]  # folders with libraries to graft, besides the system's
    exclude: Sequence[str] = ()  # further libraries that are not grafted: "gomp" of libgomp.so.1
    build: BuildLibraries = BuildLibraries()  # its other libraries


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repaired wheel's name, and the distributions whose libraries it loads, sorted: CUDA's, and others."""

    name: WheelName
    distributions: tuple[str, ...]
    carried: tuple[Carried, ...] = ()


def repair(tree: Path, name: WheelName, scratch: Path, linking: Linking, log: Log) -> Repaired:
    """Repair the unpacked wheel in `tree`, in place; a wheel without ELF files stays unchanged.

    auditwheel grafts the libraries that no manylinux policy expects on the system, and chooses the platform tag. Raises
    ActionError if no policy fits, if a library is not found or is of another CUDA version, or if a file needs or
    carries a library that `repair_checks` forbids.
    """
    before = links.read_tree(tree)
    if not before:
        log("no ELF file for the host in it: platform tag and files stay as they are")
        return Repaired(name, ())
    linked = _linked(before, linking)
    _check_before(before, linked, linking.linkage, log)
    brought = {soname for found in _brought(before, linking.build.carried).values() for soname in found}
    excludes = _excludes(linked, linking, brought)
    made = graft(tree, name, scratch, excludes, linking.search_path, linking.build.others, log)
    shutil.rmtree(tree)
    unpacked.unpack(made, tree)
    made.unlink()
    after = links.read_tree(tree)
    linked = _linked(after, linking)
    repair_checks.intact(before, after)
    repair_checks.grafts(after, bundled=linking.linkage == "bundle")
    if linking.linkage in {"bundle", "static"}:
        repair_checks.self_contained(linked, linking.linkage)
        log("no file needs a CUDA library from outside the wheel")
    by_pip = linking.linkage == "pip"
    brought_to = _brought(after, linking.build.carried)
    for member, elf in sorted(after.items()):
        folders = [library.folder for library in linked[member]] if by_pip else []
        folders += [package.libraries[soname] for soname, package in brought_to[member].items()]
        _set_runpath(tree, member, elf, folders, before.get(member), log)
    distributions = {library.package for found in linked.values() for library in found if by_pip}
    used = {package.package for found in brought_to.values() for package in found.values()}
    carried = tuple(package for package in linking.build.carried if package.package in used)
    return Repaired(WheelName.parse(made.name), tuple(sorted(distributions)), carried)


def _check_before(
    files: repair_checks.Files, linked: repair_checks.Linked, linkage: Linkage, log: Log
) -> None:
    repair_checks.without_nvhpc(files)
    if linkage == "static":
        repair_checks.self_contained(linked, linkage)
    if linkage == "bundle":
        repair_checks.graftable(linked, log)


def _excludes(linked: repair_checks.Linked, linking: Linking, brought: Set[str]) -> list[str]:
    """Return the SONAMEs, or patterns of them, that auditwheel must not graft; the driver's are always among them."""
    found = {f"{soname}*" for soname in libraries.drivers()} | {f"lib{n}.so*" for n in linking.exclude}
    found |= brought
    if linking.linkage != "bundle":
        major = major_of(linking.cuda)
        found |= {library.soname for each in linked.values() for library in each}
        found |= {library.soname for library in libraries.toolkit_libraries(major)}
    return sorted(found)


def _set_runpath(
    tree: Path,
    member: PurePosixPath,
    elf: LinkedFile,
    folders: list[str],
    before: LinkedFile | None,
    log: Log,
) -> None:
    entries, dropped = runpath.entries_for(member, elf.search_path, folders)
    gone = {*dropped, *(e for e in (before.search_path if before else ()) if not runpath.from_origin(e))}
    if gone:
        log(f"{member}: dropped from its RUNPATH: {':'.join(sorted(gone)) or 'an empty entry'}")
    if entries == elf.search_path and not elf.has_rpath:
        return
    runpath.write(tree / member, entries)
    repair_checks.intact({member: elf}, {member: linked_file.read(tree / member) or elf})
    log(f"{member}: RUNPATH {':'.join(entries) or 'removed'}")


def _brought(
    files: repair_checks.Files, carried: Sequence[Carried]
) -> dict[PurePosixPath, dict[str, Carried]]:
    """Return the libraries that each file needs and other packages bring, by SONAME.

    Libraries of every Linux and of CUDA's own packages are left out.
    """
    present = {member.name for member in files}
    places = {soname: each for each in reversed(carried) for soname in each.libraries}
    return {
        member: {
            soname: places[soname]
            for soname in elf.needed
            if soname in places and soname not in present | allowed() and not links.of_toolkit(soname)
        }
        for member, elf in sorted(files.items())
    }


def _linked(files: repair_checks.Files, linking: Linking) -> dict[PurePosixPath, list[CudaLibrary]]:
    """Return the libraries of the toolkit that each file needs but the wheel does not have."""
    present = {member.name for member in files}
    return {
        member: [
            links.provider(member, soname, found, linking.cuda, linking.pins)
            for soname in elf.needed
            if soname not in present and (found := links.of_toolkit(soname))
        ]
        for member, elf in sorted(files.items())
    }
