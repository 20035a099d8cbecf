"""Downloads pinned wheels with pip, whose configuration is the host's, and passes its output on at once."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits import toolkit_tree as trees
from gpuforge.toolkits.pins import PinnedWheel
from gpuforge.toolkits.progress import Progress, Say
from gpuforge.wheel.filename import claims, machine_of

PROGRESS = "--progress-bar=raw"  # one line for each step: https://pip.pypa.io/en/stable/cli/pip_install/
CRASH = "ERROR: Exception:"
_STEP = re.compile(r"Progress (\d+) of (\d+)\n?")


def run_pip(argv: Sequence[str], say: Say, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run pip with `PROGRESS` among its options; return its exit status and its output without the progress.

    `say` gets each line as it comes.
    """
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True
    )
    assert process.stdout is not None  # noqa: S101  it is a pipe
    lines: list[str] = []
    progress, crashed = Progress(say), False
    try:
        for line in process.stdout:
            step = _STEP.fullmatch(line)
            if step is None:
                crashed = crashed or line.startswith(CRASH)
                lines.append(line)
                if not crashed:
                    say(line.rstrip("\n"))
            else:
                progress.report(int(step[1]), int(step[2]))
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if crashed:  # the last line of a traceback has the reason
        say(lines[-1].rstrip("\n"))
    process.stdout.close()
    return process.wait(), "".join(lines)


PIP = (
    "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile", "--no-input",
    PROGRESS, "--no-user", "--no-warn-script-location", "--disable-pip-version-check",
    "--root-user-action=ignore",
)  # fmt: skip
_FULL = ("No space left on device", "Errno 28", "Disk quota exceeded")
NO_NETWORK = (
    "No matching distribution", "Max retries exceeded", "ConnectionError", "ReadTimeoutError", "CERTIFICATE_VERIFY",
    "SSLError", "Temporary failure in name resolution", "Connection refused", "ProxyError", "IncompleteRead",
    "incomplete-download",
)  # fmt: skip


def keep_dist_info(site: Path, tree: Path) -> None:
    """Move the wheels' dist-info folders to `tree/dist-info`."""
    (tree / "dist-info").mkdir(exist_ok=True)
    for folder in sorted(site.glob("*.dist-info")):
        folder.rename(tree / "dist-info" / folder.name)


def merge_beside(site: Path, tree: Path) -> None:
    """Merge the headers and libraries of packages outside the toolkit into its tree: cuDNN, NCCL, cuTENSOR."""
    for folder in sorted([*site.glob("nvidia/*/"), *site.glob("*/")]):
        for part in ("include", "lib"):
            if (folder / part).is_dir():
                trees.merge(folder / part, tree / part)


def fetch_wheels(pins: Sequence[PinnedWheel], partial: Path, say: Say) -> None:
    """Let pip download, check and unpack the wheels to `partial/site`; pip's temporary files stay in `partial`."""
    megabytes = sum(pin.size for pin in pins) / 1e6
    names = " ".join(f"{p.package}=={p.version}" for p in pins)
    packages = f"{len(pins)} package{'s'[: len(pins) != 1]}"
    say(f"fetching {packages} ({max(megabytes, 1):.0f} MB): {names}")
    lines = (f"{pin.package}=={pin.version} --hash=sha256:{pin.sha256}\n" for pin in pins)
    requirements_file = partial / "requirements.txt"
    requirements_file.write_text("".join(lines))
    scratch = partial / "tmp"
    scratch.mkdir()
    argv = [sys.executable, *PIP, f"--target={partial / 'site'}", f"--requirement={requirements_file}"]
    if machine_of(pin.filename for pin in pins) != platform.machine():
        others = {tag.platform for pin in pins for tag in claims(pin.filename).tags}
        argv += [f"--platform={name}" for name in sorted(others)]
    env = {**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}
    status, output = run_pip(argv, say, env)
    if status != 0:
        raise _pip_failure(output, partial, sum(pin.size for pin in pins))


def _pip_failure(output: str, partial: Path, size: int) -> ActionError | MissingError:
    """Return an error that a user can act on, from pip's output; the wheels have `size` bytes."""
    errors = [line.strip() for line in output.splitlines() if line.startswith("ERROR:") or "Error" in line]
    last = "; ".join(errors[-3:]) or output.strip()[-500:]
    if "DO NOT MATCH THE HASHES" in output:
        return ActionError.of(
            "a CUDA package arrived broken: its sha256 is not the one published on PyPI",
            hint="try again; if it happens again, a proxy, a mirror or pip's cache changes files",
        )
    # pip takes a download that could not be written for one that broke off. The space is for the wheels and their
    # unpacked files.
    starved = "incomplete-download" in output and shutil.disk_usage(partial).free < 2 * size
    if starved or any(sign in output for sign in _FULL):
        return trees.disk_full(partial)
    if any(sign in output for sign in NO_NETWORK):
        return MissingError.of(
            f"cannot fetch the CUDA packages: {last}",
            hint="check the network; behind a proxy set HTTPS_PROXY, with a company's own certificate set PIP_CERT",
        )
    return ActionError.of(f"pip could not install the CUDA packages: {last}")
