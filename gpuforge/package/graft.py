"""Grafts libraries that no manylinux policy expects on the system into a wheel, with auditwheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies

from gpuforge.errors import ActionError
from gpuforge.package import links
from gpuforge.package.runpath import patchelf
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
