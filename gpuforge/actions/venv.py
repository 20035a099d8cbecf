"""Virtual environments, made and filled by uv from local wheels, without an index or a network, and builds in them."""

import csv
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from uv import find_uv_bin

from gpuforge import digest, private_mounts
from gpuforge.errors import ActionError
from gpuforge.manifest.braces import fill
from gpuforge.private_mounts import Overlay

# Environments are moved and their files get other times, so compiled modules must not depend on either. They are
# checked by content, because a build may patch a module of its environment.
_UV_SETTINGS = {"PYC_INVALIDATION_MODE": "CHECKED_HASH", "UV_NO_WRAP": "1"}
_TELLING = "hint: The wheel is compatible with"  # uv's other hints are about its options
_ALWAYS = ("--quiet", "--no-config", "--no-cache", "--offline", "--color=never")


def create(python: Path, folder: Path) -> Path:
    """Create an environment of the interpreter `python` in `folder`, without pip in it; return its interpreter."""
    answer = _uv(
        "venv", "--relocatable", "--no-project", "--no-python-downloads", f"--python={python}", folder
    )
    if answer.returncode:
        raise ActionError.of(f"{python} cannot make a virtual environment{cause(answer.stdout)}")
    return adopt(folder, python)


def install(python: Path, wheels: Path) -> None:
    """Install every wheel in the folder `wheels`, and nothing else, into the environment of `python`.

    Larger files that the store has are linked from there.
    """
    files = sorted(wheels.glob("*.whl"))
    if not files:
        return
    linked: dict[str, Path] = {}
    beside = python.parents[2] / ".gpuforge-wheels"  # uv writes the path into the environment
    beside.mkdir(exist_ok=True)
    try:
        if stored := os.environ.get("GPUFORGE_FILES"):
            files = [_without_stored(path, beside, Path(stored), linked) for path in files]
        # uv unpacks wheels into its cache and links from there. If it cannot link, it copies every file.
        words = [
            "pip",
            "install",
            "--no-deps",
            "--reinstall",
            "--compile-bytecode",
            f"--python={python}",
            "--",
        ]
        answer = _uv(*words, *files, TMPDIR=str(beside))
    finally:
        shutil.rmtree(beside)
    if answer.returncode:
        raise _error("the build requirements could not be installed", answer.stdout)
    for name, file in linked.items():
        (site,) = python.parent.parent.glob("lib/python3*/site-packages")
        (site / name).unlink()
        try:
            os.link(file, site / name)
        except OSError:  # no hard links here, or too many
            shutil.copy(file, site / name)


def _without_stored(path: Path, folder: Path, stored: Path, linked: dict[str, Path]) -> Path:
    """Return a wheel in which files are empty that the store has in `stored`, and add these to `linked`.

    It is made in `folder`; without such files it is the wheel at `path` itself. Python files stay, as uv compiles them,
    its metadata, and what is not for `site-packages`. (Files that a wheel lacks, uv may take out of RECORD.)
    """
    from gpuforge.wheel import record
    from gpuforge.wheel.archive import BROKEN

    found: dict[str, Path] = {}
    try:
        with zipfile.ZipFile(path) as wheel:
            listings = [name for name in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
            rows = [row for name in listings for row in record.rows([wheel.read(name)])]
            sums = {row.name: record.sha256(row.digest) for row in rows}
            for member in wheel.infolist():
                name, sha256 = member.filename, sums.get(member.filename, "")
                executable = "-x" if member.external_attr >> 16 & 0o111 else ""
                file = stored / sha256[:2] / f"{sha256}{executable}"
                of_site = not re.search(r"\.py$|^[^/]+\.(data|dist-info)/|(^|/)\.\.?/|^/", name)
                if sha256 and of_site and file.is_file() and digest.of_file(file) == sha256:
                    found[name] = file
            if not found:
                return path
            with zipfile.ZipFile(folder / path.name, "w") as lean:
                for member in wheel.infolist():
                    data = b"" if member.filename in found else wheel.read(member)
                    lean.writestr(member, data, zipfile.ZIP_STORED)
    except (*BROKEN, csv.Error):
        return path  # uv says what is wrong with it
    linked |= found
    return folder / path.name


def require(python: Path, requirements: Sequence[str], folders: Sequence[Path]) -> None:
    """Install `requirements` and all they need into the environment of `python`, from wheels in `folders` alone.

    Raises ActionError, with the reason, when the folders do not hold what is needed.
    """
    places = [f"--find-links={path}" for path in folders]
    answer = _uv("pip", "install", "--no-index", f"--python={python}", *places, "--", *requirements)
    if answer.returncode:
        raise _error("it cannot be installed with the packages that it declares", answer.stdout)


def check(python: Path) -> None:
    """Raise ActionError if the packages installed for `python` do not fit together."""
    answer = _uv("pip", "check", f"--python={python}")
    if answer.returncode:
        raise ActionError.of(f"the installed packages do not fit together{cause(answer.stdout)}")


def adopt(folder: Path, python: Path) -> Path:
    """Return the interpreter of an environment that `create` made, here or on another machine, for `python`."""
    own = folder / "bin" / "python"
    if own.readlink() != python:
        own.unlink()
        own.symlink_to(python)
        file = folder / "pyvenv.cfg"
        settings = file.read_text().splitlines(keepends=True)
        changed = [f"home = {python.parent}\n" if line.startswith("home =") else line for line in settings]
        file.write_text("".join(changed))
    return own


def _uv(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [find_uv_bin(), *_ALWAYS, *words]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    answer = subprocess.run(
        command,
        env=environ | _UV_SETTINGS | variables,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in answer.stdout.splitlines():
        print(f"uv: {line}".rstrip(), flush=True)  # an error of uv is not the step's
    return answer


def _error(message: str, output: str) -> ActionError:
    hints = [line.removeprefix("hint: ") for line in output.splitlines() if line.startswith(_TELLING)]
    return ActionError.of(message + cause(output), hint=(hints or [""])[0])


def cause(output: str) -> str:
    """Return why uv failed in one line, after a colon: the innermost cause in its output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line.removeprefix("cause: ") for line in lines if line.startswith("cause: ")]
    errors = [
        line.removeprefix("error: ") for line in lines if not line.startswith(("hint:", "Using Python"))
    ]
    return f": {(causes[-1:] or errors[-1:])[0]}" if errors else ""


def protected(environment: Path, python: Path, scratch: Path) -> Path:
    """Return the interpreter of an environment for a project that cannot change the one that others share.

    It is the shared environment itself, read-only, as in a container. If the system does not allow this, or the
    environment was made for the same Python at another path, it is a copy.
    """
    own = environment / "bin" / "python"
    if own.readlink() == python:
        if not os.access(environment, os.W_OK):
            return own
        with suppress(OSError):
            if private_mounts.enter_if_allowed():
                private_mounts.protect(environment)
                return own
    return adopt(Path(shutil.copytree(environment.resolve(), scratch / "env", symlinks=True)), python)


class HookRunner(Protocol):
    """The function by which `build` runs a PEP 517 hook: with a command, its folder, and further variables."""

    def __call__(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        """Run it, raising subprocess.CalledProcessError when it fails."""


def runner_of(
    python: Path, variables: Mapping[str, str] | None = None, overlays: Sequence[Overlay] = ()
) -> HookRunner:
    """Return a runner that puts the programs of `python`'s environment first on PATH, of these or this process's.

    What runs sees folders with these overlays.
    """
    lay = partial(private_mounts.lay, overlays) if overlays else None

    def run(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        environ = {**(os.environ if variables is None else variables), **(extra_environ or {})}
        environ["PATH"] = os.pathsep.join([str(python.parent), environ.get("PATH", os.defpath)])
        subprocess.run(cmd, cwd=cwd, env=environ, check=True, preexec_fn=lay)

    return run


def run_command(
    python: Path, argv: Sequence[str], scratch: Path, *, name: str, program: str, hint: str
) -> Path:
    """Run a command in a new folder of `scratch`, with the programs of `python`'s environment; return the folder.

    Raises ActionError if it fails (`name` is what messages call it), or if there is no such `program`; `hint` says
    where that should come from.
    """
    folder = scratch / "run"
    folder.mkdir()
    print("command:", *argv, flush=True)
    try:
        runner_of(python)(argv, str(folder))
    except subprocess.CalledProcessError as error:
        raise ActionError.of(
            f"{name} failed with exit status {error.returncode}",
            hint="its first errors are above, and all of its output is in the log",
        ) from error
    except OSError as error:
        raise ActionError.of(f"{program} cannot be run: {error.strerror}", hint=hint) from error
    return folder


def filled(
    settings: Mapping[str, str | tuple[str, ...]], names: Mapping[str, str]
) -> dict[str, str | list[str]]:
    """Return config settings of PEP 517 with the manifest's names filled in."""
    return {
        key: fill(value, names) if isinstance(value, str) else [fill(each, names) for each in value]
        for key, value in settings.items()
    }
