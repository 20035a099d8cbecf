"""Resolve a wheel together with packages that it must live beside, and fetch those, for the audit of both."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from uv import find_uv_bin

from gpuforge.audit.link import package_tables
from gpuforge.errors import ActionError, MissingError
from gpuforge.plan.requests.audit import FetchBeside
from gpuforge.steps import entry, wheelhouse
from gpuforge.steps.fetch_source import index_url, pip_setting, public
from gpuforge.steps.project_requirements import refuse_references
from gpuforge.wheel import metadata

_LONGEST = 600  # characters of uv's reason
_UNREACHABLE = (
    "Failed to fetch",
    "error sending request",
    "dns error",
    "Network is unreachable",
    "tcp connect",
)


def main(request: FetchBeside) -> None:
    """Fill the folder `output` with wheels of `beside` and all it needs, chosen together with `wheel`.

    `resolution.json` lists every package that was chosen. NVIDIA's packages of libraries are not fetched: the audit
    knows what they bring.
    """
    request.output.mkdir()
    wheel = wheelhouse.one_wheel(request.wheel)
    refuse_references(metadata.requirements(metadata.of_wheel(wheel)), wheel.name)
    own = canonicalize_name(wheel.name.split("-")[0])
    extras = f"[{','.join(request.extras)}]" if request.extras else ""
    wanted = request.scratch / "wanted.in"
    wanted.write_text(f"{own}{extras} @ {wheel.as_uri()}\n{request.beside}\n")
    lines = resolve(wanted, request.python, own, request.beside, request.own)
    ours = {own, *(canonicalize_name(path.name.split("-")[0]) for path in _wheels(request.own))}
    chosen = {canonicalize_name(r.name): r for r in lines if canonicalize_name(r.name) not in ours}
    wheelhouse.download(
        request.python,
        [str(r) for name, r in sorted(chosen.items()) if name not in package_tables.nvidias()],
        request.output,
        alone=True,
        what=f"what {request.beside} brings",
        hint="correct `[audit] beside`",
    )
    resolution = {
        "beside": request.beside,
        "packages": sorted(f"{r.name} {r.specifier}" for r in chosen.values()),
    }
    (request.output / "resolution.json").write_text(json.dumps(resolution, indent=1) + "\n")


def resolve(
    wanted: Path, python: Path, own: str, beside: str, wheels: Path | None = None
) -> list[Requirement]:
    """Return what uv chooses for the requirements in a file; raises ActionError with uv's reason in short.

    `wheels` is a folder with more of what can be chosen.
    """
    command = [
        find_uv_bin(),
        "pip",
        "compile",
        "--quiet",
        "--no-config",
        "--no-cache",
        "--color=never",
        "--no-header",
    ]
    command += ["--no-annotate", "--only-binary=:all:", f"--python={python}", f"--index-url={index_url()}"]
    # as pip, which installs the wheel on users' machines and in the test: a name's versions are those of all indexes
    command.append("--index-strategy=unsafe-best-match")
    command += [f"--find-links={wheels}"] if wheels else []
    places = {"extra-index-url": "--extra-index-url", "find-links": "--find-links"}
    for setting, option in places.items():
        command += [f"{option}={word}" for word in pip_setting(setting).split() if _is_there(word)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    if (bundle := pip_setting("cert")) and "SSL_CERT_FILE" not in environ:
        environ["SSL_CERT_FILE"] = bundle
    environ |= {"UV_NO_WRAP": "1"}
    answer = subprocess.run(
        [*command, "--", str(wanted)], env=environ, capture_output=True, text=True, check=False
    )
    print(answer.stderr, answer.stdout, sep="", flush=True)
    if answer.returncode == 0:
        return [Requirement(line) for line in answer.stdout.splitlines() if line and line[0] not in "#-/ "]
    if any(sign in answer.stderr for sign in _UNREACHABLE):
        raise MissingError.of(
            f"cannot reach the package index {public(index_url())} for {beside}",
            hint="check the network, the proxy and the CA bundle (PIP_INDEX_URL, SSL_CERT_FILE); uv's words are above",
        )
    raise ActionError.of(
        f"{own} cannot be installed beside {beside}{reason(answer.stderr)}",
        hint="change the project's dependencies or its toolkit, or `[audit] beside`; uv's words are above",
    )


def _wheels(folder: Path | None) -> list[Path]:
    return sorted(folder.glob("*.whl")) if folder else []


def reason(output: str) -> str:
    """Return why uv found nothing that fits, in one line after a colon, at most so long."""
    _, found, text = output.partition("cause: ")
    words = " ".join((text if found else output).split("hint:")[0].split())
    words = re.sub(r"(?<=[a-z\d]) @ file://\S+", "", words)
    return f": {words[:_LONGEST]}{' …' if len(words) > _LONGEST else ''}" if words else ""


def _is_there(place: str) -> bool:
    return place.startswith("http") or Path(place.removeprefix("file://")).exists()


if __name__ == "__main__":
    entry.run(FetchBeside, main)
