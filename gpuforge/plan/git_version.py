"""The version of a git checkout, for backends that ask git: sources are built without their history.

setuptools-scm, and all that builds upon it (hatch-vcs), read `.git_archival.txt` where there is no repository:
https://setuptools-scm.readthedocs.io/en/latest/usage/#git-archives
"""

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = ".git_archival.txt"
DECLARING = ("pyproject.toml", "setup.cfg", "setup.py")  # where a project says how it gets its version
_BACKENDS = re.compile(rb"setuptools[-_]scm|hatch[-_]vcs|vcs[-_]versioning|use_scm_version")
_LONGEST = 1_000_000  # bytes
# If objects are missing, git fetches them with the address and program of the repository's own configuration. Here git
# may use no transport (git(1), GIT_ALLOW_PROTOCOL), and ignores bare repositories inside a project (git-config(1),
# safe.bareRepository).
_ALONE = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
_SETTINGS = ("safe.bareRepository=explicit", "core.fsmonitor=false", "core.hooksPath=/dev/null")


def is_needed(declaring: Iterable[Path]) -> bool:
    """Return whether a project's own files name a backend that takes the version from git."""
    found = (path for path in declaring if path.is_file() and path.stat().st_size < _LONGEST)
    return any(_BACKENDS.search(path.read_bytes()) for path in found)


def described(repository: Path, environ: Mapping[str, str]) -> str:
    """Return git's description of the commit, "v1.2-3-g0123abc": the nearest tag and the commits since; "" for none.

    No program that the repository names is run.
    """
    command = ["git", "-C", str(repository), *(word for each in _SETTINGS for word in ("-c", each))]
    command += ["describe", "--tags", "--long", "--match", "*[0-9]*"]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env={**environ, **_ALONE},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def write(source: Path, description: str) -> None:
    """Leave the description in a source tree; a file that `git archive` filled in stays, and a link is not followed."""
    file = source / FILE
    if not description or file.is_symlink():
        return
    if not file.is_file() or b"$Format:" in file.read_bytes():
        commit = description.rpartition("-g")[2]
        file.write_text(f"node: {commit}\ndescribe-name: {description}\n")
