"""Resolve a wheel together with packages that it must live beside, and fetch those, for the audit of both."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge.cuda import carriers
from gpuforge.errors import ActionError
from gpuforge.plan.requests.audit import RESOLUTION, FetchBeside, Resolution
from gpuforge.steps import entry, value_file, wheelhouse
from gpuforge.wheel import filename, metadata, package_index


def main(request: FetchBeside) -> None:
    """Fill the folder `output` with wheels of `beside` and all it needs, chosen together with `wheel`.

    Its `Resolution` lists every package that was chosen. NVIDIA's packages of libraries are not fetched: the audit
    knows their libraries.
    """
    request.output.mkdir()
    wheel = wheelhouse.one_wheel(request.wheel)
    metadata.refuse_references(metadata.requirements(metadata.of_wheel(wheel)), wheel.name)
    own = filename.project(wheel.name)
    extras = f"[{','.join(request.extras)}]" if request.extras else ""
    requirements_file = request.scratch / "wanted.in"
    requirements_file.write_text(f"{own}{extras} @ {wheel.as_uri()}\n{request.beside}\n")
    lines = resolve(requirements_file, request.python, own, request.beside, request.own)
    ours = {own, *(filename.project(path.name) for path in _wheels(request.own))}
    chosen = {canonicalize_name(r.name): r for r in lines if canonicalize_name(r.name) not in ours}
    wheelhouse.download(
        request.python,
        [str(r) for name, r in sorted(chosen.items()) if name not in carriers.nvidia_packages()],
        request.output,
        alone=True,
        what=f"what {request.beside} brings",
        hint="correct `[audit] beside`",
    )
    packages = sorted(f"{r.name} {r.specifier}" for r in chosen.values())
    value_file.write(Resolution(request.beside, tuple(packages)), request.output / RESOLUTION)


def resolve(
    requirements_file: Path, python: Path, own: str, beside: str, wheels: Path | None = None
) -> list[Requirement]:
    """Return the packages that uv chooses for the requirements in a file; raises ActionError with uv's reason in short.

    `wheels` is a folder with further wheels to choose from.
    """
    options = [f"--python={python}", *([f"--find-links={wheels}"] if wheels else [])]
    answer = package_index.compile_requirements(requirements_file, options, beside)
    print(answer.stderr, answer.stdout, sep="", flush=True)
    if answer.returncode == 0:
        return [Requirement(line) for line in answer.stdout.splitlines() if line and line[0] not in "#-/ "]
    raise ActionError.of(
        f"{own} cannot be installed beside {beside}{package_index.reason(answer.stderr)}",
        hint="change the project's dependencies or its toolkit, or `[audit] beside`; uv's output is above",
    )


def _wheels(folder: Path | None) -> list[Path]:
    return sorted(folder.glob("*.whl")) if folder else []


if __name__ == "__main__":
    entry.run(FetchBeside, main)
