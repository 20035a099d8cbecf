"""Folders of wheels, filled by pip from the package index."""

import errno
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pip
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuforge.actions.pip_alone import REFUSED
from gpuforge.errors import ActionError, MissingError
from gpuforge.requirements import parse_requirement
from gpuforge.toolkits.pip import CRASH, PROGRESS, run_pip
from gpuforge.wheel import filename

_PIP = Path(pip.__file__).with_name("__pip-runner__.py")  # which another Python runs, as for `pip --python`
_ALONE = Path(__file__).with_name("pip_alone.py")
_UNREACHABLE = ("Connection", "certificate", "Max retries", "incomplete-download")


def download(
    python: Path,
    requirements: Sequence[str],
    folder: Path,
    at_hand: Sequence[Path] = (),
    *,
    constraints: Sequence[Path] = (),
    alone: bool = False,
    indexes: Mapping[str, str] = MappingProxyType({}),
    declared: Sequence[Requirement] = (),
    what: str,
    hint: str,
) -> None:
    """Download wheels of `requirements` for the interpreter `python`, with pip's own settings.

    Their dependencies are downloaded, too, unless `alone`. `indexes` are the packages that come from an index of their
    own, whether `requirements` or wheels among them (`declared`) name them. `what` names the requirements in a message
    ("the build requirements"), and `hint` says how to change them. Raises MissingError when pip cannot reach an index,
    ActionError when the requirements cannot be met by wheels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not requirements:  # a project's own backend may need nothing; pip refuses an empty list
        return
    command = [str(python), "-I", str(_ALONE), str(_PIP), "download", "--only-binary=:all:"]
    command += [PROGRESS, "--disable-pip-version-check", *(f"--constraint={path}" for path in constraints)]
    with TemporaryDirectory(prefix="own-index-") as scratch:
        pins = []
        named = [
            *declared,
            *(parse_requirement(text) for text in requirements if "/" not in text and indexes),
        ]
        for package, index in sorted(indexes.items()):
            some = [str(each) for each in named if canonicalize_name(each.name) == package]
            if wheel := _of_index(index, package, some, command, Path(scratch, package), what):
                pins.append(f"{package} @ {wheel.as_uri()}\n")
        Path(scratch, "pins.txt").write_text("".join(pins))
        command += [f"--dest={folder}", f"--constraint={scratch}/pins.txt", *(["--no-deps"] if alone else [])]
        command += [*(f"--find-links={path}" for path in at_hand), "--", *requirements]
        status, printed = run_pip(command, partial(print, flush=True))
    if status:
        raise _failure(printed, requirements, folder, what, hint)
    pinned = {line.partition(" @ ")[0] for line in pins}
    for stray in (
        path for path in folder.glob("*.whl") if filename.project(path.name) in indexes.keys() - pinned
    ):
        raise ActionError.of(
            f"{what}: {stray.name} came from pip's index, as only other packages require it, and [indexes] has its own",
            hint=f"add {filename.project(stray.name)} to the requirements, beside the package that needs it",
        )


def _of_index(
    index: str, package: str, requirements: Sequence[str], command: Sequence[str], folder: Path, what: str
) -> Path | None:
    """Download the wheel of a package from its own index, and nothing else; None if no requirement applies here."""
    if not requirements:
        return None
    apart = {
        name: text
        for name, text in os.environ.items()
        if name not in {"PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"}
    }
    call = [*command, "--no-deps", f"--index-url={index}", f"--dest={folder}", "--", *requirements]
    status, printed = run_pip(call, partial(print, flush=True), apart)
    if status:
        # pip does not tell an index without the package from one that is unreachable
        nothing = "(from versions: none)" in printed or any(sign in printed for sign in _UNREACHABLE)
        raise MissingError.of(
            f"{what}: {index}, the index of {package} in [indexes], has no wheel of {' and '.join(requirements)} for "
            f"this Python{', or cannot be reached' if nothing else ''}",
            hint=f"{index.rstrip('/')}/{package}/ lists its wheels: correct [indexes] {package} or the requirement"
            + ("; or check the network, the proxy and the CA bundle (PIP_CERT)" if nothing else ""),
        )
    return next(folder.glob("*.whl"), None)


def _failure(printed: str, requirements: Sequence[str], folder: Path, what: str, hint: str) -> Exception:
    """Return the error for pip's output, as `download` raises it."""
    output, _, crash = printed.partition(CRASH)  # what follows is pip's own traceback
    if REFUSED in printed:
        return ActionError.of(
            f"{what} cannot be met by wheels: pip would have to build one of them, and a build runs foreign code",
            hint=f"pip's output is above; {hint}",
        )
    if "No space left on device" in crash or _disk_full(printed, folder):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    if any(sign in printed for sign in _UNREACHABLE):
        return MissingError.of(
            f"cannot reach the package index for {what}",
            hint="check the network, the proxy and the CA bundle (PIP_CERT, PIP_INDEX_URL)",
        )
    # pip does not distinguish an index without the package from one that is unreachable, or has no wheel of it.
    if "(from versions: none)" in output:
        nothing = re.search(r"requirement (\S+)(?: \(from [^()]+\))? \(from versions: none\)", output)
        return MissingError.of(
            f"{what} cannot be met: no package index has a wheel of {nothing[1] if nothing else 'it'} for this Python",
            hint="check its name, the network, the proxy and PIP_INDEX_URL; if it has only a source distribution, "
            f'write a manifest for it, with naming = ["plain"], to be built first; {hint}',
        )
    if need := _other_python(output):
        return ActionError.of(
            f"{what} cannot be met on this Python: {need}",
            hint="leave this Python out of `[package] python`, or allow a release for it; pip's output is above",
        )
    names = ", ".join(Path(text).name if text.startswith("/") else text for text in requirements)
    return ActionError.of(
        f"{what} cannot be met by wheels: {names}{_cause(output)}", hint=f"pip's output is above; {hint}"
    )


def _disk_full(output: str, folder: Path) -> bool:
    """Return whether a download failed because the disk is full: pip reports it as an incomplete download."""
    units = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
    sizes = [float(number) * units[unit] for number, unit in re.findall(r"\(([\d.]+) (kB|MB|GB)\)", output)]
    broke_off = "incomplete-download" in output and sizes
    return bool(broke_off) and shutil.disk_usage(folder).free < 2 * sizes[-1]


def _other_python(output: str) -> str:
    """Return which Python the newest allowed release needs, if pip rejected it for this; else ""."""
    missing = re.search(r"No matching distribution found for (.+)", output)
    rejected = re.search(r"versions that require a different python version: (.+)", output)
    if not missing or not rejected:
        return ""
    try:
        required = Requirement(missing[1].strip())
        needs = dict(re.findall(r"(\S+) Requires-Python ([^;]+)", rejected[1]))
        allowed = list(required.specifier.filter(needs, prereleases=True))
    except (InvalidRequirement, InvalidVersion):
        return ""
    newest = max(allowed, key=Version, default="")
    return f"{required.name} {newest} needs Python {needs[newest]}" if newest else ""


def _cause(output: str) -> str:
    """Return pip's last error, or else its last line, after a colon."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    errors = [text for text in errors if not text.startswith("ResolutionImpossible")]  # a link to pip's pages
    return f": {(errors or lines)[-1]}" if lines else ""


def one_wheel(path: Path) -> Path:
    """Return the wheel `path`, or the only wheel in the folder `path`; raises ActionError."""
    found = sorted(path.glob("*.whl")) if path.is_dir() else [path] if path.is_file() else []
    if len(found) != 1:
        raise ActionError.of(
            f"{path} should be a wheel or a folder with one, and there are {len(found)}",
            hint="check the project's build",
        )
    return found[0]
