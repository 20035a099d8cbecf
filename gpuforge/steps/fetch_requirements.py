"""Fetch the build requirements of a PEP 517 project, and make the environment that each of its builds starts from."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from build import BuildBackendException, BuildException, ProjectBuilder
from packaging.utils import canonicalize_name, parse_wheel_filename

from gpuforge import digest
from gpuforge.errors import ActionError
from gpuforge.manifest import constraints
from gpuforge.steps import entry, wheelhouse
from gpuforge.steps.venv import create, install, runner_of


def main(arguments: list[str]) -> None:
    """Write the environment to `--output`, and to `--lock` what was asked for and each wheel's sha256."""
    parser = argparse.ArgumentParser(prog="fetch_requirements")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--requires", default="[]", help="JSON list: what the manifest adds")
    parser.add_argument("--config-settings", default="{}")
    parser.add_argument("--constraints", type=Path, action="append", default=[], help="as pip reads them")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    options = parser.parse_args(arguments)
    added = json.loads(options.requires)
    options.constraints = [rewritten(path, options.scratch) for path in options.constraints]
    try:
        static = checked(
            sorted(ProjectBuilder(options.source).build_system_requires), "its pyproject.toml asks"
        )
        wheels = options.scratch / "static"
        download(options, [*static, *added], wheels)
        python = create(options.python, options.output)
        install(python, wheels)
        asked = ProjectBuilder(options.source, python_executable=str(python), runner=runner_of(python))
        dynamic = sorted(asked.get_requires_for_build("wheel", json.loads(options.config_settings)))
        dynamic = checked(dynamic, "its build backend asks")
    except BuildBackendException as error:
        raise ActionError.of(f"the project's build backend could not say what it needs: {error}") from error
    except BuildException as error:
        raise ActionError.of(
            f"the project cannot be built: {error}", hint="it needs a pyproject.toml"
        ) from error
    everything = list(dict.fromkeys([*static, *added, *dynamic]))
    if not all(is_met(text, wheels) for text in dynamic):  # everything is chosen anew, together
        first, wheels = wheels, options.scratch / "all"
        download(options, everything, wheels, [first])
        shutil.rmtree(options.output)
        install(create(options.python, options.output), wheels)
    found = {path.name: digest.of_file(path) for path in sorted(wheels.glob("*.whl"))}
    options.lock.write_text(json.dumps({"requires": everything, "wheels": found}, indent=1) + "\n")
    print(f"{len(found)} wheels for: {', '.join(everything)}", flush=True)


def checked(requirements: Sequence[str], who: str) -> list[str]:
    """Return what a project asks for as pip may be told it; raises ActionError for options and direct references."""
    try:
        return [str(constraints.plain(text)) for text in requirements]
    except ValueError as error:
        raise ActionError.of(
            f"the project cannot be built: {who} for what is not a requirement by name: {error}",
            hint="requirements come from the package index, by name; set one of your own as for pip (PIP_INDEX_URL)",
        ) from None


def rewritten(path: Path, scratch: Path) -> Path:
    """Write a file of constraints anew, with what was understood of it and nothing else; return that file.

    Raises ActionError when a line is not understood.
    """
    lines = []
    for found in constraints.read(path.read_text(encoding="utf-8", errors="replace")):
        if isinstance(found, constraints.Wrong):
            raise ActionError.of(f"[build] constraints: line {found.line}: {found.what}", hint=found.hint)
        lines.append(f"{found}\n")
    scratch.mkdir(parents=True, exist_ok=True)
    new = scratch / "constraints.txt"
    new.write_text("".join(lines), encoding="utf-8")
    return new


def is_met(requirement: str, wheels: Path) -> bool:
    """Say whether a folder of wheels holds what the backend asks for, as far as names and versions tell."""
    wanted = constraints.plain(requirement)
    found = dict(parse_wheel_filename(path.name)[:2] for path in wheels.glob("*.whl"))
    version = found.get(canonicalize_name(wanted.name))
    plain = not (wanted.extras or wanted.marker)
    return plain and version is not None and wanted.specifier.contains(version, prereleases=True)


def download(
    options: argparse.Namespace, requirements: Sequence[str], folder: Path, at_hand: Sequence[Path] = ()
) -> None:
    """Download build requirements; see `wheelhouse.download`."""
    wheelhouse.download(
        options.python,
        requirements,
        folder,
        at_hand,
        constraints=options.constraints,
        what="the build requirements",
        hint="`[build] requires` and `constraints` can narrow a requirement to a version that has a wheel",
    )


if __name__ == "__main__":
    entry.run(main)
