"""Test a finished wheel as its users get it: install it with its requirements only, import it, run its tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuforge.errors import ActionError
from gpuforge.plan.requests.trial import TryWheel
from gpuforge.plan.trial_result import Cuda, Install, TrialResult
from gpuforge.requirements import Release
from gpuforge.steps import absent_driver, declared_sets, entry, loaded_cuda, machine_cuda, wheelhouse
from gpuforge.steps.importing import also_imported, imported
from gpuforge.steps.loaded_cuda import LoadWatch
from gpuforge.steps.machine_cuda import MachineCuda
from gpuforge.steps.manifest_tests import tested
from gpuforge.steps.venv import check, create, require
from gpuforge.wheel import filename


def main(request: TryWheel) -> None:
    """Write `result`, the tests and their outcomes; raises ActionError for a wheel that fails."""
    wheel = wheelhouse.one_wheel(request.wheel)
    nowhere = request.scratch / "nowhere"
    nowhere.mkdir()
    try:
        result = proved(request, wheel, nowhere)
    except ActionError as error:
        (problem,) = error.diagnostics
        raise ActionError.of(f"{request.cell}: {problem.message}", hint=problem.hint) from error
    result.write(request.result)


def proved(request: TryWheel, wheel: Path, nowhere: Path) -> TrialResult:
    """Install and import the wheel in each way that its users do, and run the command in the last; return the outcome.

    If an extra brings CUDA's libraries, the import of the bare wheel may fail without them; the result has this.
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
    python = request.scratch / "env" / "bin" / "python"
    if request.imports:
        (site,) = python.parent.parent.glob("lib/python3*/site-packages")
        driver = absent_driver.provide(site, request.scratch / "driver") if request.stub else None
        also_imported(request.imports, python, nowhere, driver)
    with_command: tuple[Release, ...] = ()
    ran = None
    if command := request.command:
        if request.requires:
            # They are chosen together: if the tests pin a dependency, the packages that fit only its newest release
            # must go, too.
            require(python, [as_requirement(wheel, extras), *request.requires], request.wheels)
            with_command = packages(python)
            print(f"the command runs with: {', '.join(map(str, with_command))}", flush=True)
        check(python)
        ran = tested(command, python, request.folder or nowhere, request.project, request.package)
        watch.judged(f"`{ran.command_line}`")
    return TrialResult(
        installs=(*installs, found), imports=request.imports, tested_with=with_command, ran=ran
    )


def tried(
    request: TryWheel,
    wheel: Path,
    folder: Path,
    extras: Sequence[str],
    machine: MachineCuda,
    *,
    optional: bool = False,
) -> tuple[Install, LoadWatch]:
    """Install the wheel with some extras into a new environment in `folder`, and import it; raises ActionError.

    `optional`: an import may lack a library of CUDA, which the result then names under `lacks`.
    """
    python = create(request.python, folder)
    version, there = installed(wheel, python, request.wheels, extras)
    watch = loaded_cuda.watch(python, folder / "loaded", request.toolkit)
    done = imported(request.package, python, request.scratch / "nowhere", machine, optional=optional)
    lacks, cuda = done.lacks, None
    if optional and (taken := watch.elsewhere()):
        lacks = taken[0].name
    else:
        cuda = Cuda(machine=machine.state, loaded=watch.judged(f"`import {request.package}`"))
    found = Install(
        extras=tuple(extras),
        wheel=wheel.name,
        python=version,
        packages=there,
        imported=request.package,
        import_seconds=done.seconds,
        lacks=lacks,
        cuda=cuda,
    )
    return found, watch


def secluded(request: TryWheel) -> MachineCuda:
    """Hide this machine's CUDA from the test, as far as the system allows; return what was found."""
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


def installed(
    wheel: Path, python: Path, wheels: Sequence[Path], extras: Sequence[str]
) -> tuple[str, tuple[Release, ...]]:
    """Install the wheel with its requirements and nothing else; return Python's version and the installed packages."""
    requirement = as_requirement(wheel, extras)
    print(f"installing {Path(requirement).name}", flush=True)
    require(python, [requirement], wheels)
    command = [str(python), "-I", "-c", "import platform; print(platform.python_version())"]
    version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    there = packages(python)
    print(f"installed for Python {version}: {', '.join(map(str, there))}", flush=True)
    return version, there


def as_requirement(wheel: Path, extras: Sequence[str]) -> str:
    """Return the requirement of a wheel with some of its extras."""
    return f"{wheel}[{','.join(extras)}]" if extras else str(wheel)


def packages(python: Path) -> tuple[Release, ...]:
    """Return the packages that are installed for `python`, sorted."""
    folders = python.parent.parent.glob("lib/python3*/site-packages/*.dist-info")
    return tuple(sorted(filename.of_info(path.name) for path in folders))


if __name__ == "__main__":
    entry.run(TryWheel, main)
