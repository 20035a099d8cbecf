"""Runs uv to choose packages from pip's indexes; it builds nothing."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

from uv import find_uv_bin

from gpuforge.errors import MissingError
from gpuforge.index.settings import index_url, pip_setting, public

_SECONDS, _MEMORY = 300, 8 << 30  # of processor time, and bytes of data
_LONGEST = 600  # characters of uv's reason
_UNREACHABLE = (
    "Failed to fetch",
    "error sending request",
    "dns error",
    "Network is unreachable",
    "tcp connect",
)


def compile_requirements(
    requirements_file: Path, options: Sequence[str], what: str
) -> subprocess.CompletedProcess[str]:
    """Let uv choose a wheel for each of the requirements in a file, and for their dependencies.

    `what` names the requirements in a message. If nothing fits, the answer's status is not 0, and `reason` returns the
    cause in one line. Raises MissingError if the index cannot be reached.
    """
    command = [find_uv_bin(), "pip", "compile", "--quiet", "--no-config", "--no-cache", "--color=never"]
    command += ["--no-header", "--no-annotate", "--only-binary=:all:", f"--index-url={index_url()}"]
    # like pip, which installs the wheels on users' machines and in tests: the versions of all indexes count
    command.append("--index-strategy=unsafe-best-match")
    places = {"extra-index-url": "--extra-index-url", "find-links": "--find-links"}
    for setting, option in places.items():
        command += [f"{option}={word}" for word in pip_setting(setting).split() if _is_there(word)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    if (bundle := pip_setting("cert")) and "SSL_CERT_FILE" not in environ:
        environ["SSL_CERT_FILE"] = bundle
    environ |= {"UV_NO_WRAP": "1"}
    answer = subprocess.run(
        [*command, *options, "--", str(requirements_file)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_limit,  # it inherits the limits of an audit, if this is one
    )
    if answer.returncode and any(sign in answer.stderr for sign in _UNREACHABLE):
        raise MissingError.of(
            f"cannot reach the package index {public(index_url())} for {what}{reason(answer.stderr)}",
            hint="check the network, the proxy and the CA bundle (PIP_INDEX_URL, SSL_CERT_FILE)",
        )
    return answer


def reason(output: str) -> str:
    """Return why uv found nothing that fits, in one line after a colon, shortened."""
    _, found, text = output.partition("cause: ")
    words = " ".join((text if found else output).split("hint:")[0].split())
    words = re.sub(r"(?<=[a-z\d]) @ file://\S+", "", words)
    return f": {words[:_LONGEST]}{' …' if len(words) > _LONGEST else ''}" if words else ""


def _limit() -> None:
    """Set this process's limits to what uv may need, not to its parent's: an index may be hostile."""
    for what, most in ((resource.RLIMIT_CPU, _SECONDS), (resource.RLIMIT_DATA, _MEMORY)):
        _, hardest = resource.getrlimit(what)
        resource.setrlimit(what, (most if hardest == resource.RLIM_INFINITY else min(most, hardest), hardest))


def _is_there(place: str) -> bool:
    return place.startswith("http") or Path(place.removeprefix("file://")).exists()
