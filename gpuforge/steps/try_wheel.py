"""Test a finished wheel as its users get it: installed with what it declares alone, imported, its tests run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge.cuda import libraries
from gpuforge.errors import ActionError
from gpuforge.manifest import braces
from gpuforge.plan.requests.trial import TryWheel
from gpuforge.steps import declared_sets, entry, loaded_cuda, machine_cuda, wheelhouse
from gpuforge.steps.loaded_cuda import Watch
from gpuforge.steps.machine_cuda import NONE, MachineCuda
from gpuforge.steps.venv import check, create, require

_KEPT = 256 * 1024  # bytes of a command's output, from its end, that are looked at
_GRACE = 2.0  # seconds
_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b")
_NO_TESTS = 5  # https://docs.pytest.org/en/stable/reference/exit-codes.html


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended: its exit status (negative: a signal), its seconds, and its last lines."""

    status: int
    seconds: float
    lines: tuple[str, ...]


def main(request: TryWheel) -> None:
    """Write `result`, what was tested and how it went, as JSON; raises ActionError for a wheel that fails."""
    wheel = wheelhouse.one_wheel(request.wheel)
    nowhere = request.scratch / "nowhere"
    nowhere.mkdir()
    try:
        said = proved(request, wheel, nowhere)
    except ActionError as error:
        (problem,) = error.diagnostics
        raise ActionError.of(f"{request.cell}: {problem.message}", hint=problem.hint) from error
    request.result.write_text(json.dumps({"schema": 1, "cell": request.cell, **said}, indent=1) + "\n")


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
            said, _ = tried(request, wheel, folder, each, machine, optional=by_extra and not each)
        except ActionError as error:
            (problem,) = error.diagnostics
            message = f"installed {declared_sets.title(each)}, {problem.message}"
            raise ActionError.of(message, hint=problem.hint) from error
        installs.append(said)
        shutil.rmtree(folder)
    said, watch = tried(request, wheel, request.scratch / "env", extras, machine)
    result = {**said, "installs": [*installs, said]}
    if command := request.command:
        python = request.scratch / "env" / "bin" / "python"
        if request.requires:
            require(python, request.requires, request.wheels)
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
    said = {"extras": list(extras), **installed(wheel, python, request.wheels, extras)}
    watch = loaded_cuda.watch(python, folder / "loaded", request.toolkit)
    said |= imported(request.package, python, request.scratch / "nowhere", machine, optional=optional)
    if optional and (taken := watch.elsewhere()):
        return said | {"lacks": taken[0].name}, watch
    loaded = watch.judged(f"`import {request.package}`")
    return said | {"cuda": {"machine": machine.state, "loaded": loaded}}, watch


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
    what = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    print(f"installing {Path(what).name}", flush=True)
    require(python, [what], wheels)
    asked = [str(python), "-I", "-c", "import platform; print(platform.python_version())"]
    version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    packages = sorted(
        path.name.removesuffix(".dist-info").replace("-", " ")
        for path in python.parent.parent.glob("lib/python3*/site-packages/*.dist-info")
    )
    print(f"installed for Python {version}: {', '.join(packages)}", flush=True)
    return {"wheel": wheel.name, "python": version, "packages": packages}


def imported(
    package: str, python: Path, folder: Path, machine: MachineCuda = NONE, *, optional: bool = False
) -> dict[str, Any]:
    """Import the package, isolated from the caller's folder and variables; raises ActionError.

    `optional`: for want of a library of CUDA it may fail; the result names it under `lacks`.
    """
    ran = run([str(python), "-I", "-c", f"import {package}"], folder, os.environ)
    line = telling(ran.lines) if ran.status else ""
    if optional and (lacking := _absent(line)) and libraries.is_toolkit_file(lacking):
        return {"import": package, "lacks": lacking}
    if ran.status:
        raise ActionError.of(
            _failure(f"import {package}", ran.status, line), hint=import_hint(package, line, machine)
        )
    return {"import": package, "import_seconds": round(ran.seconds, 3)}


def import_hint(package: str, line: str, machine: MachineCuda = NONE) -> str:
    """Say what to do about an import that ended with this line, on a machine with this CUDA."""
    module = re.search(r"No module named '([\w.]+)'", line)
    if module and module[1].partition(".")[0] == package.partition(".")[0]:
        return "`[package] import` says what the wheel's import package is called; is it in the wheel?"
    if module:
        return (
            f"the wheel does not declare it: add the package of {module[1]!r} to the project's dependencies"
        )
    if "libcuda.so" in line or "libnvidia-ml.so" in line:
        return "that is the driver's, which many machines do not have: open it at run time (dlopen), do not link it"
    absent = _absent(line)
    if libraries.is_toolkit_file(absent):
        here = machine.has(absent)
        return loaded_cuda.advice(absent) + (
            f"; the test does not see that of this machine, {here}" if here else ""
        )
    if absent:
        return "nothing that the wheel declares puts that library where the wheel looks; see the audit's findings"
    return "an import must work where there is no GPU; the log has all of its output"


def _absent(line: str) -> str:
    """Return the library that an import did not find, by the loader's message; "" where it says nothing of it."""
    found = re.search(r"(\S+): cannot open shared object file", line)
    return found[1].rpartition("/")[2] if found else ""


def tested(
    command: Sequence[str], python: Path, folder: Path, project: Path | None, package: str
) -> dict[str, Any]:
    """Run the test command in `folder` with the environment's programs first on PATH; raises ActionError."""
    words = [braces.fill(word, {"project": str(project)}) for word in command]
    env = {**os.environ, "VIRTUAL_ENV": str(python.parent.parent)}
    env["PATH"] = os.pathsep.join([str(python.parent), env.get("PATH", os.defpath)])
    shown = _line(command)
    print(f"$ {shlex.join(words)}", flush=True)
    try:
        ran = run(words, folder, env)
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise ActionError.of(
            f"[test] command cannot be started: there is no program {words[0]}",
            hint="add the package that has it to [test] requires",
        ) from error
    summary = pytest_summary(ran.lines) if _is_pytest(command) else ""
    if ran.status:
        shadowed = project is not None and (project / package.replace(".", "/")).is_dir()
        raise _failed(shown, ran, summary, package if shadowed else "")
    counts = {kind: int(number) for number, kind in _COUNT.findall(summary)}
    seconds = round(ran.seconds, 3)
    result = {"command": list(command), "command_line": shown, "seconds": seconds}
    return result | {"summary": summary, "counts": counts}


def _line(command: Sequence[str]) -> str:
    """Write a command as a shell would read it, but for `{project}`, which needs no quotes to be understood."""
    return " ".join(
        word if re.fullmatch(r"[\w@%+=:,./{}-]+", word) else shlex.quote(word) for word in command
    )


def _failed(shown: str, ran: Ran, summary: str, shadowed: str) -> ActionError:
    hint = "the log has all of its output"
    line = telling(ran.lines)
    if summary:
        worst = [text for text in ran.lines if text.startswith(("FAILED ", "ERROR ", "ERROR:"))][:1]
        if worst and " - " not in worst[0]:
            worst += [text[1:].strip() for text in ran.lines if text.startswith("E  ")][:1]
        line = ": ".join([summary, *worst])
    if ran.status == _NO_TESTS and "no tests ran" in summary:
        line, hint = "pytest found no tests", "check the path in [test] command: {project} is the source tree"
    elif shadowed and re.search(r"ImportError|ModuleNotFoundError", "\n".join(ran.lines)):
        hint = (
            f"the source tree's own {shadowed}/ may be found before the installed one: "
            "copy the tests alone beside it, with [test] sources"
        )
    return ActionError.of(_failure(shown, ran.status, line), hint=hint)


def run(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Ran:
    """Run a command to its end, its output passed on as it comes; raises OSError when it cannot be started."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )
    kept = bytearray()
    reader = threading.Thread(target=_pass_on, args=(process, kept), daemon=True)
    reader.start()
    status = process.wait()
    seconds = time.monotonic() - begin
    reader.join(timeout=_GRACE)  # what it left running may hold the pipe for ever
    return Ran(status, seconds, tuple(line.rstrip() for line in kept.decode(errors="replace").splitlines()))


def _pass_on(process: subprocess.Popen[bytes], kept: bytearray) -> None:
    stream = process.stdout
    assert stream is not None  # noqa: S101  it is a pipe
    with stream:
        while chunk := os.read(stream.fileno(), 65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            kept += chunk
            del kept[:-_KEPT]


def telling(lines: Sequence[str]) -> str:
    """Return the line that says most of a failure: the last that is not blank, where Python puts its error."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def pytest_summary(lines: Sequence[str]) -> str:
    """Return pytest's last line without its frame: "1 failed, 12 passed in 0.21s"; "" when there is none."""
    for line in reversed(lines):
        text = line.strip("= ")
        if re.search(r" in \d+(\.\d+)?s( \([\d:]+\))?$", text) and (
            _COUNT.search(text) or text.startswith("no tests ran")
        ):
            return text
    return ""


def _is_pytest(command: Sequence[str]) -> bool:
    return any(Path(word).name in {"pytest", "py.test"} for word in command[:4])


def _failure(command: str, status: int, line: str) -> str:
    ended = f"failed with exit status {status}"
    if status < 0:
        known = -status in {number.value for number in signal.Signals}
        ended = f"was ended by {signal.Signals(-status).name if known else f'signal {-status}'}"
    return f"`{command}` {ended}" + (f": {line}" if line else "")


if __name__ == "__main__":
    entry.run(TryWheel, main)
