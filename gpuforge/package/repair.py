"""Repair a wheel by its linkage: graft what it must carry, point RUNPATH at what it finds in pip packages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.cuda import libraries
from gpuforge.cuda.libraries import Library
from gpuforge.errors import ActionError
from gpuforge.package import links, runpath
from gpuforge.package.graft import Log, graft
from gpuforge.wheel import unpacked
from gpuforge.wheel.filename import WheelName

Linkage = Literal["pip", "bundle", "system", "static"]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repaired wheel's name, and the pip packages that it needs at run time, sorted."""

    name: WheelName
    packages: tuple[str, ...]


def repair(
    tree: Path,
    name: WheelName,
    scratch: Path,
    *,
    cuda: str,
    linkage: Linkage,
    pins: Mapping[str, str],
    search_path: Sequence[str],
    exclude: Sequence[str] = (),
    log: Log,
) -> Repaired:
    """Repair the unpacked wheel in `tree`, in place; a wheel without ELF files stays as it is.

    auditwheel grafts what no policy allows to be taken from the system, and chooses the platform tag; never the
    driver. What becomes of the libraries of the toolkit `cuda` ("13.0") is the linkage's:

    - `pip`: each file that needs one gets a RUNPATH from its own folder to that of the pip package;
    - `bundle`: they are grafted, too;
    - `system`: they are left to the user's machine, and no RUNPATH says where;
    - `static`: there must be none.

    `pins` names the packages the build used, which are preferred where several have a library. `search_path` is
    where libraries are looked for besides the system's places. `exclude` names further libraries that are not grafted:
    "gomp" of libgomp.so.1.

    Raises ActionError when no manylinux policy fits, a library is not found, a library is of another CUDA
    version, the linkage does not hold, or an NVHPC runtime would be grafted.
    """
    before = links.read_tree(tree)
    if not before:
        log("no ELF file for the host in it: platform tag and files stay as they are")
        return Repaired(name, ())
    _refuse_nvhpc(before)
    linked = _linked(before, cuda, pins)
    if linkage == "static":
        _refuse_linked(linked)
    if linkage == "bundle":
        _check_opened_by_name(linked, log)
    excludes = _drivers() | {f"lib{name}.so*" for name in exclude}
    if linkage != "bundle":
        excludes |= {library.soname for found in linked.values() for library in found}
        excludes |= {library.soname for library in libraries.toolkit_libraries(_major(cuda))}
    made = graft(tree, name, scratch, sorted(excludes), search_path, log)
    shutil.rmtree(tree)
    unpacked.unpack(made, tree)
    made.unlink()
    after = links.read_tree(tree)
    _check_grafts(after, linkage)
    linked = _linked(after, cuda, pins)
    if linkage in {"bundle", "static"}:
        _refuse_linked(linked)
        log("no file needs a CUDA library from outside the wheel")
    for member, elf in sorted(after.items()):
        folders = [library.folder for library in linked[member]] if linkage == "pip" else []
        _set_runpath(tree, member, elf, folders, before.get(member), log)
    packages = {library.package for found in linked.values() for library in found if linkage == "pip"}
    return Repaired(WheelName.parse(made.name), tuple(sorted(packages)))


def _set_runpath(
    tree: Path,
    member: PurePosixPath,
    elf: LinkedFile,
    folders: list[str],
    before: LinkedFile | None,
    log: Log,
) -> None:
    entries, dropped = runpath.entries_for(member, elf.runpath, folders)
    gone = {*dropped, *(e for e in (before.runpath if before else ()) if not runpath.from_origin(e))}
    if gone:
        log(f"{member}: dropped from its RUNPATH: {':'.join(sorted(gone))}")
    if entries == elf.runpath and not elf.has_rpath:
        return
    runpath.write(tree / member, entries)
    log(f"{member}: RUNPATH {':'.join(entries) or 'removed'}")


def _linked(
    files: Mapping[PurePosixPath, LinkedFile], cuda: str, pins: Mapping[str, str]
) -> dict[PurePosixPath, list[Library]]:
    """Return the libraries that each file needs of pip packages; those that the wheel has itself are none."""
    present = {member.name for member in files}
    return {
        member: [
            links.provider(member, soname, found, cuda, pins)
            for soname in elf.needed
            if soname not in present and (found := links.of_toolkit(soname))
        ]
        for member, elf in sorted(files.items())
    }


def _major(cuda: str) -> int:
    return int(cuda.split(".", maxsplit=1)[0])


def _drivers() -> set[str]:
    """The driver's libraries as patterns: what auditwheel must always leave where it is."""
    return {f"{soname}*" for soname in libraries.drivers()}


def _refuse_linked(linked: Mapping[PurePosixPath, list[Library]]) -> None:
    """Hold what `static` and `bundle` promise: nothing of the toolkit is needed from outside."""
    for member, found in linked.items():
        for library in found:
            stem = library.soname.partition(".so")[0].removeprefix("lib")
            raise ActionError.of(
                f"{member} needs {library.soname}, which [cuda] linkage says it must not",
                hint=f"link it statically (CMake: CUDA::{stem}_static), where the toolkit has a static one; "
                "what is built without CMake or a plain nvcc call must be told itself",
            )


def _check_opened_by_name(linked: Mapping[PurePosixPath, list[Library]], log: Log) -> None:
    """Refuse to graft libraries that cannot do without others that they open by name, which grafting changes."""
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
                    f"{member} needs {library.soname}, which cannot be put into a wheel: while it runs it opens "
                    f"{parts} by name, and a library in a wheel has another name",
                    hint='use linkage = "pip"',
                )


def _refuse_nvhpc(files: Mapping[PurePosixPath, LinkedFile]) -> None:
    for member, elf in sorted(files.items()):
        for soname in elf.needed:
            if _is_nvhpc(soname):
                raise ActionError.of(
                    f"{member} needs {soname}, a runtime of the NVIDIA HPC compilers, which a wheel must not carry: "
                    "a user's own nvc++ link brings it under its plain name, and two copies meet in one process",
                    hint="build host code with g++ or clang++, and make GPU code a user-compiled or fallback object",
                )


def _check_grafts(files: Mapping[PurePosixPath, LinkedFile], linkage: Linkage) -> None:
    """Hold that nothing was grafted that never may be, however it was reached."""
    for member in sorted(files):
        plain = libraries.plain_name(member.name)
        if plain == member.name:
            continue
        foreign = linkage != "bundle" and libraries.is_toolkit(plain)
        if libraries.is_driver(plain) or foreign or _is_nvhpc(plain):
            raise ActionError.of(
                f"auditwheel grafted {plain} as {member}, which must come from the user's machine",
                hint="a library outside the toolkit needs it: link the project without that library",
            )


def _is_nvhpc(soname: str) -> bool:
    return libraries.compiler_runtime(soname) in {"nvhpc", "pgi"}
