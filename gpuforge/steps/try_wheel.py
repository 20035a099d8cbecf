"""Test a finished wheel as its users get it: installed with what it declares alone, imported, its tests run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuforge.errors import ActionError
from gpuforge.plan.requests.trial import TryWheel
from gpuforge.steps import absent_driver, declared_sets, entry, loaded_cuda, machine_cuda, wheelhouse
from gpuforge.steps.importing import also_imported, imported
from gpuforge.steps.loaded_cuda import Watch
from gpuforge.steps.machine_cuda import MachineCuda
from gpuforge.steps.manifest_tests import tested
from gpuforge.steps.venv import check, create, require
from gpuforge.wheel import filename


def main(request: TryWheel) -> None:
    """Write `result`, what was tested and how it went, as JSON; raises ActionError for a wheel that fails."""
    wheel = wheelhouse.one_wheel(request.wheel)
    nowhere = request.scratch / "nowhere"
    nowhere.mkdir()
    try:
        result = proved(request, wheel, nowhere)
    except ActionError as error:
        (problem,) = error.diagnostics
        raise ActionError.of(f"{request.cell}: {problem.message}", hint=problem.hint) from error
    request.result.write_text(json.dumps({"schema": 1, "cell": request.cell, **result}, indent=1) + "\n")


def proved(request: TryWheel, wheel: Path, nowhere: Path) -> dict[str, Any]:
    """Install and import the wheel in each way that its users do, and run the command in the last; return how it went.

    Where an extra brings CUDA's libraries, an import of the bare wheel may fail for want of them: the result says so.
    """
    machine = secluded(request)
    *others, extras = declared_sets.declared_sets(wheel, request.extras, request.cuda)
    by_extra = any(declared_sets.for_cuda(name, request.cuda) for each in (*others, extras) for name in each)
    installs = []
    for each in others:
        folder = request.scratch / "other"
        try:
            found, _ = tried(request, wheel, folder, each, machine, optional=by_extra and not each)
        except ActionError as error:
            (problem,) = error.diagnostics
            message = f"installed {declared_sets.title(each)}, {problem.message}"
            raise ActionError.of(message, hint=problem.hint) from error
        installs.append(found)
        shutil.rmtree(folder)
    found, watch = tried(request, wheel, request.scratch / "env", extras, machine)
    result = {**found, "installs": [*installs, found]}
    python = request.scratch / "env" / "bin" / "python"
    if request.imports:
        (site,) = python.parent.parent.glob("lib/python3*/site-packages")
        driver = absent_driver.provide(site, request.scratch / "driver") if request.stub else None
        result["imports"] = also_imported(request.imports, python, nowhere, driver)
    if command := request.command:
        if request.requires:
            # Chosen together: where the tests pin a dependency, the packages that fit its newest release must go, too.
            require(python, [as_requirement(wheel, extras), *request.requires], request.wheels)
            result["tested_with"] = packages(python)
            print(f"the command runs with: {', '.join(result['tested_with'])}", flush=True)
        check(python)
        result |= tested(command, python, request.folder or nowhere, request.project, request.package)
        watch.judged(f"`{result['command_line']}`")
    return result


def tried(
    request: TryWheel,
    wheel: Path,
    folder: Path,
    extras: Sequence[str],
    machine: MachineCuda,
    *,
    optional: bool = False,
) -> tuple[dict[str, Any], Watch]:
    """Install the wheel with some extras into a new environment in `folder`, and import it; raises ActionError.

    `optional`: an import may lack a library of CUDA, which the result then names under `lacks`.
    """
    python = create(request.python, folder)
    found = {"extras": list(extras), **installed(wheel, python, request.wheels, extras)}
    watch = loaded_cuda.watch(python, folder / "loaded", request.toolkit)
    found |= imported(request.package, python, request.scratch / "nowhere", machine, optional=optional)
    if optional and (taken := watch.elsewhere()):
        return found | {"lacks": taken[0].name}, watch
    loaded = watch.judged(f"`import {request.package}`")
    return found | {"cuda": {"machine": machine.state, "loaded": loaded}}, watch


def secluded(request: TryWheel) -> MachineCuda:
    """Leave the test nothing of this machine's CUDA, as far as the system allows; return what there is."""
    machine_cuda.forget(os.environ)
    needed = [
        Path(sys.executable),
        Path(sys.prefix),
        request.python,
        request.wheel,
        request.scratch,
        *request.wheels,
    ]
    machine = machine_cuda.hide(machine_cuda.find(os.environ, request.toolkit, needed), request.scratch)
    if machine:
        print(f"this machine's CUDA, {machine.state}: {', '.join(machine.places)}", flush=True)
    return machine


def installed(wheel: Path, python: Path, wheels: Sequence[Path], extras: Sequence[str]) -> dict[str, Any]:
    """Install the wheel with what it declares and nothing else; return what is there then."""
    requirement = as_requirement(wheel, extras)
    print(f"installing {Path(requirement).name}", flush=True)
    require(python, [requirement], wheels)
    command = [str(python), "-I", "-c", "import platform; print(platform.python_version())"]
    version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    there = packages(python)
    print(f"installed for Python {version}: {', '.join(there)}", flush=True)
    return {"wheel": wheel.name, "python": version, "packages": there}


def as_requirement(wheel: Path, extras: Sequence[str]) -> str:
    """Return the requirement of a wheel with some of its extras."""
    return f"{wheel}[{','.join(extras)}]" if extras else str(wheel)


def packages(python: Path) -> list[str]:
    """Return what is installed for `python`: names and versions."""
    return sorted(
        " ".join(filename.of_info(path.name))
        for path in python.parent.parent.glob("lib/python3*/site-packages/*.dist-info")
    )


if __name__ == "__main__":
    entry.run(TryWheel, main)
