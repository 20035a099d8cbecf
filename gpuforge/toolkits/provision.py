"""Download the wheels of a CUDA toolkit and assemble them into a tree that nvcc and CMake's FindCUDAToolkit accept."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.toolkits.pypi import Pin

PIP = (
    "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile", "--no-input",
    "--progress-bar=off", "--no-user", "--no-warn-script-location", "--disable-pip-version-check",
    "--root-user-action=ignore",
)  # fmt: skip
TARGETS = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}  # the names of nvcc and FindCUDAToolkit
NO_NETWORK = (
    "No matching distribution", "Max retries exceeded", "ConnectionError", "ReadTimeoutError", "CERTIFICATE_VERIFY",
    "SSLError", "Temporary failure in name resolution", "Connection refused", "ProxyError", "IncompleteRead",
)  # fmt: skip


def provision(
    pins: Sequence[Pin],
    destination: Path,
    *,
    say: Callable[[str], object] = lambda _: None,
    machine: str | None = None,
) -> None:
    """Download `pins` with pip and make the toolkit tree at `destination`, which must not exist or be an empty folder.

    Pip's own configuration (indexes, CA bundle, proxies, cache) is the host's. `say` gets a line for each stage.
    Nothing is left at or beside `destination` when it fails or is interrupted. Raises MissingError when the
    wheels cannot be reached, ActionError when one arrives broken or the disk is full, UsageError for a
    `destination` in use.
    """
    if destination.is_dir() and any(destination.iterdir()):
        raise UsageError.of(f"{destination} is not empty", hint="name a folder that does not exist yet")
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(
        tempfile.mkdtemp(prefix=f".{destination.name}.", suffix=".partial", dir=destination.parent)
    )
    try:
        megabytes = sum(pin.size for pin in pins) / 1e6
        say(
            f"fetching {len(pins)} packages ({megabytes:.0f} MB): "
            + " ".join(f"{p.package}=={p.version}" for p in pins)
        )
        _download(pins, partial)
        say("assembling the toolkit")
        tree = assemble(partial / "site", partial / "tree", machine or platform.machine())
        tree.replace(destination)
        say(f"CUDA toolkit ready in {destination}")
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(destination) from None
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def assemble(site: Path, tree: Path, machine: str) -> Path:
    """Move what pip put into `site` to a toolkit tree: bin include lib nvvm lib64 targets/…; returns `tree`.

    The wheels lack what their files are found by: unversioned library links for the linker, `lib64` for CMake and
    `targets/` for nvcc.profile; their dist-info folders (licences, RECORD) go to `tree/dist-info`.
    """
    layouts = sorted((site / "nvidia").glob("cu[0-9]*"))
    if len(layouts) != 1:
        raise ActionError.of(
            f"the packages hold {len(layouts)} toolkits where one was expected: {[p.name for p in layouts]}"
        )
    layouts[0].rename(tree)
    (tree / "dist-info").mkdir()
    for folder in sorted(site.glob("*.dist-info")):
        folder.rename(tree / "dist-info" / folder.name)
    _make_executable(tree)
    _link_libraries(tree / "lib")
    (tree / "lib64").symlink_to("lib")
    target = tree / "targets" / TARGETS.get(machine, f"{machine}-linux")
    target.mkdir(parents=True, exist_ok=True)
    for name in ("include", "lib"):
        if not (target / name).exists():
            (target / name).symlink_to(f"../../{name}")
    return tree


def _link_libraries(folder: Path) -> None:
    """Make `libx.so` for each `libx.so.N`."""
    for library in sorted(folder.glob("lib*.so.*")):
        plain = folder / (library.name.partition(".so.")[0] + ".so")
        if not plain.is_symlink() and not plain.exists():
            plain.symlink_to(library.name)


def _make_executable(tree: Path) -> None:
    """Set the executable bits that a wheel may have lost."""
    for program in _programs(tree):
        program.chmod(program.stat().st_mode | 0o111)


def _programs(tree: Path) -> Iterator[Path]:
    for folder in (tree / "bin", tree / "nvvm" / "bin"):
        for file in sorted(folder.glob("*")):
            if file.is_file():
                with file.open("rb") as stream:
                    if stream.read(4)[:2] == b"#!" or stream.seek(0) or stream.read(4) == b"\x7fELF":
                        yield file


def _download(pins: Sequence[Pin], partial: Path) -> None:
    """Let pip download, check and unpack the wheels to `partial/site`; pip's temporary files stay in `partial`."""
    wanted = partial / "requirements.txt"
    wanted.write_text("".join(f"{pin.package}=={pin.version} --hash=sha256:{pin.sha256}\n" for pin in pins))
    scratch = partial / "tmp"
    scratch.mkdir()
    argv = [sys.executable, *PIP, f"--target={partial / 'site'}", f"--requirement={wanted}"]
    env = {**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True
    )
    try:
        output, _ = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.returncode != 0:
        raise _pip_failure(output, partial)


def _pip_failure(output: str, partial: Path) -> ActionError | MissingError:
    """Turn what pip said into the error that a user can act on."""
    errors = [line.strip() for line in output.splitlines() if line.startswith("ERROR:") or "Error" in line]
    last = "; ".join(errors[-3:]) or output.strip()[-500:]
    if "DO NOT MATCH THE HASHES" in output:
        return ActionError.of(
            "a CUDA package arrived broken: its sha256 is not the one published on PyPI",
            hint="try again; if it happens again, a proxy, a mirror or pip's cache changes files",
        )
    if "No space left on device" in output or "Errno 28" in output or "Disk quota exceeded" in output:
        return _disk_full(partial)
    if any(sign in output for sign in NO_NETWORK):
        return MissingError.of(
            f"cannot fetch the CUDA packages: {last}",
            hint="check the network; behind a proxy set HTTPS_PROXY, with a company's own certificate set PIP_CERT",
        )
    return ActionError.of(f"pip could not install the CUDA packages: {last}")


def _disk_full(where: Path) -> ActionError:
    return ActionError.of(
        f"no space left in {where.parent} for the CUDA toolkit",
        hint="free some space (a toolkit with its libraries takes one to several GB), or choose another folder",
    )
