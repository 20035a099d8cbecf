"""The work of a wheel's test: installed as its users do, imported, and tested by the manifest's command."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.actions import declared_sets, machine_cuda, wheelhouse
from gpuforge.actions.machine_cuda import NONE, LoadWatch, MachineCuda, library_advice, watch_loading
from gpuforge.actions.trial_result import CommandResult, Cuda, Install, TrialResult
from gpuforge.actions.venv import check, create, require
from gpuforge.binary.elf import linked_file
from gpuforge.cuda import libraries, sonames
from gpuforge.errors import ActionError, MalformedError
from gpuforge.manifest import braces
from gpuforge.requirements import Release
from gpuforge.toolkits import stub_library
from gpuforge.wheel import filename

if TYPE_CHECKING:
    from gpuforge.actions.trial import TryWheel
    from gpuforge.plan.action import Workdir

_KEPT = 256 * 1024  # bytes of a command's output, from its end, that are looked at
_GRACE = 2.0  # seconds
_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b")
_TIME = re.compile(r" in \d+(\.\d+)?s( \([\d:]+\))?$")
_NO_TESTS = 5  # https://docs.pytest.org/en/stable/reference/exit-codes.html


def proved(step: TryWheel[Path], at: Workdir) -> TrialResult:
    """Install and import the wheel in each way that its users do, and run the command in the last; return the outcome.

    If an extra brings CUDA's libraries, the import of the bare wheel may fail without them; the result has this.
    """
    wheel = wheelhouse.one_wheel(step.wheel)
    nowhere = at.scratch / "nowhere"
    nowhere.mkdir()
    machine = secluded(step, at.scratch)
    *others, extras = declared_sets.declared_sets(wheel, step.extras, step.cuda)
    by_extra = any(declared_sets.for_cuda(name, step.cuda) for each in (*others, extras) for name in each)
    installs = []
    for each in others:
        folder = at.scratch / "other"
        try:
            found, _ = tried(step, at.scratch, wheel, folder, each, machine, optional=by_extra and not each)
        except ActionError as error:
            (problem,) = error.diagnostics
            message = f"installed {declared_sets.title(each)}, {problem.message}"
            raise ActionError.of(message, hint=problem.hint) from error
        installs.append(found)
        shutil.rmtree(folder)
    found, watch = tried(step, at.scratch, wheel, at.scratch / "env", extras, machine)
    python = at.scratch / "env" / "bin" / "python"
    if step.imports:
        also_imported(
            step.imports, python, nowhere, stand_in(step, python, at.scratch / "driver", every=True)
        )
    with_command: tuple[Release, ...] = ()
    ran = None
    if command := step.command:
        if step.requires:
            # They are chosen together: if the tests pin a dependency, the packages that fit only its newest release
            # must go, too.
            require(python, [as_requirement(wheel, extras), *step.requires], step.found)
            with_command = packages(python)
            print(f"the command runs with: {', '.join(map(str, with_command))}", flush=True)
            stand_in(step, python, python.parent.parent / "driver")
        check(python)
        ran = tested(command, python, step.tests or nowhere, step.project, step.package)
        watch.judged(f"`{ran.command_line}`")
    return TrialResult(installs=(*installs, found), imports=step.imports, tested_with=with_command, ran=ran)


def tried(
    step: TryWheel[Path],
    scratch: Path,
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
    python = create(step.python, folder)
    version, there = installed(wheel, python, step.found, extras)
    if driver := stand_in(step, python, folder / "driver"):
        os.environ["LD_LIBRARY_PATH"] = str(driver)  # of all that is imported and run from here on
    watch = watch_loading(python, folder / "loaded", step.toolkit)
    done = imported(step.package, python, scratch / "nowhere", machine, optional=optional)
    lacks, cuda = done.lacks, None
    if optional and (taken := watch.elsewhere()):
        lacks = taken[0].name
    else:
        cuda = Cuda(machine=machine.state, loaded=watch.judged(f"`import {step.package}`"))
    found = Install(
        extras=tuple(extras),
        wheel=wheel.name,
        python=version,
        packages=there,
        imported=step.package,
        import_seconds=done.seconds,
        lacks=lacks,
        cuda=cuda,
    )
    return found, watch


def secluded(step: TryWheel[Path], scratch: Path) -> MachineCuda:
    """Hide this machine's CUDA from the test, as far as the system allows; return what was found."""
    machine_cuda.forget(os.environ)
    needed = [
        Path(sys.executable),
        Path(sys.prefix),
        step.python,
        step.wheel,
        scratch,
        *step.found,
    ]
    machine = machine_cuda.hide(machine_cuda.find(os.environ, step.toolkit, needed), scratch)
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


class Imported(NamedTuple):
    """How long the import of a package took, or the CUDA library whose absence made it fail."""

    seconds: float | None
    lacks: str = ""


_GIL = "the import turned the GIL on"


def imported(
    package: str, python: Path, folder: Path, machine: MachineCuda = NONE, *, optional: bool = False
) -> Imported:
    """Import the package, isolated from the caller's folder and variables; raises ActionError.

    `optional`: it may fail if a CUDA library is absent.
    """
    ran = run([str(python), "-I", "-c", _import(package)], folder, os.environ)
    line = last_line(ran.lines) if ran.status else ""
    if optional and (lacking := _absent(line)) and libraries.is_toolkit_file(lacking):
        return Imported(None, lacking)
    if ran.status:
        raise ActionError.of(
            failure(f"import {package}", ran.status, line), hint=import_hint(package, line, machine)
        )
    return Imported(round(ran.seconds, 3))


def also_imported(modules: Sequence[str], python: Path, folder: Path, driver: Path | None) -> None:
    """Import further modules, each in its own process; `driver` is a folder with stand-ins for drivers' libraries."""
    environ = {**os.environ, **({"LD_LIBRARY_PATH": str(driver)} if driver else {})}
    for module in modules:
        ran = run([str(python), "-I", "-c", _import(module)], folder, environ)
        if ran.status:
            line = last_line(ran.lines)
            raise ActionError.of(
                failure(f"import {module}", ran.status, line), hint=import_hint(module, line)
            )
        print(f"import {module}: it loads{' with stand-ins for drivers' if driver else ''}", flush=True)


def _import(module: str) -> str:
    """Return a program that imports a module, and fails if that turns the GIL of a free-threaded Python on.

    https://docs.python.org/3/howto/free-threading-extensions.html
    """
    return (
        f"import sys; gil = getattr(sys, '_is_gil_enabled', bool); off = not gil(); import {module}\n"
        f"if off and gil(): sys.exit('{_GIL}')"
    )


def import_hint(package: str, line: str, machine: MachineCuda = NONE) -> str:
    """Return a hint for an import that ended with this line, on a machine with this CUDA."""
    module = re.search(r"No module named '([\w.]+)'", line)
    if module and module[1].partition(".")[0] == package.partition(".")[0]:
        return "`[package] import` must name a package that is in the wheel"
    if module:
        brings = "setuptools<82" if module[1] == "pkg_resources" else f"the package of {module[1]!r}"
        return f"the wheel does not declare it: add {brings} to the project's dependencies, or to [wheel] requires"
    if "libcuda.so" in line or "libnvidia-ml.so" in line:
        return (
            "that library is the driver's, which many machines do not have: open it with dlopen instead of linking it; "
            "a module that must link with it can be tested with [test] imports"
        )
    if line == _GIL:
        return (
            "the warning in the log names the module: declare in it that it is safe without the GIL (Py_mod_gil; "
            "freethreading_compatible in Cython, py::mod_gil_not_used in pybind11), or take the Python out of `python`"
        )
    absent = _absent(line)
    if driver := stub_library.drivers().get(sonames.unversioned(absent)):
        return (
            f"that library comes with a driver or its loader: if users have it, `[test] drivers = "
            f'["{driver.library}"]` tests the wheel with one that finds no device'
        )
    if libraries.is_toolkit_file(absent):
        here = machine.has(absent)
        return library_advice(absent) + (f"; the test hides the one of this machine, {here}" if here else "")
    if absent:
        return "no declared package has that library on the wheel's search paths: see the audit's findings"
    return "an import must work where there is no GPU; the log has all of its output"


def _absent(line: str) -> str:
    """Return the library that an import did not find, from the loader's message; "" for another message."""
    found = re.search(r"(\S+): cannot open shared object file", line)
    return found[1].rpartition("/")[2] if found else ""


def stand_in(step: TryWheel[Path], python: Path, folder: Path, *, every: bool = False) -> Path | None:
    """Write stand-ins for drivers' libraries into `folder`, with the functions that installed libraries use.

    They are those of `[test] drivers` or, with `every`, of all drivers. Modules that link with a driver can then be
    loaded, and find no device. That these functions exist was checked when the build linked with the real library or a
    stub. Returns None if the tests see this machine's GPUs, or nothing is asked for.
    """
    known = stub_library.drivers().items()
    drivers = {name: each for name, each in known if every or each.library in step.drivers}
    if not drivers or not step.stub:
        return None
    functions: dict[str, set[str]] = {}
    (site,) = python.parent.parent.glob("lib/python3*/site-packages")
    for path in sorted(site.rglob("*.so*")):
        try:
            found = linked_file.read(path) if path.is_file() else None
        except (MalformedError, OSError):
            continue
        for soname in found.needed if found else ():
            if found and (driver := drivers.get(sonames.unversioned(soname))):
                names = (name for name in found.undefined if re.fullmatch(driver.names, name))
                functions.setdefault(soname, set()).update(names)
    folder.mkdir(exist_ok=True)
    for soname, used in functions.items():
        answer = drivers[sonames.unversioned(soname)].no_device
        stub_library.write(folder / soname, soname, sorted(used), platform.machine(), answer)
        print(f"{soname} is a stand-in with {len(used)} functions", flush=True)
    return folder


def tested(
    command: Sequence[str], python: Path, folder: Path, project: Path | None, package: str
) -> CommandResult:
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
    is_pytest = any(Path(word).name in {"pytest", "py.test"} for word in command[:4])
    summary = pytest_summary(ran.lines) if is_pytest else ""
    if ran.status:
        shadowed = project is not None and (project / package.replace(".", "/")).is_dir()
        raise _failed(shown, ran, summary, package if shadowed else "")
    return CommandResult(
        command=tuple(command),
        command_line=shown,
        seconds=round(ran.seconds, 3),
        summary=summary,
        outcome=_TIME.sub("", summary),
        counts={kind: int(number) for number, kind in _COUNT.findall(summary)},
    )


def _line(command: Sequence[str]) -> str:
    """Write a command as for a shell, but without quotes around `{project}`."""
    return " ".join(
        word if re.fullmatch(r"[\w@%+=:,./{}-]+", word) else shlex.quote(word) for word in command
    )


def _failed(shown: str, ran: Ran, summary: str, shadowed: str) -> ActionError:
    hint = "the log has all of its output"
    line = last_line(ran.lines)
    if summary:
        worst = [text for text in ran.lines if text.startswith(("FAILED ", "ERROR ", "ERROR:"))][:1]
        if worst and " - " not in worst[0]:
            worst += [text[1:].strip() for text in ran.lines if text.startswith("E  ")][:1]
        line = ": ".join([summary, *worst])
    if ran.status == _NO_TESTS and "no tests ran" in summary:
        line, hint = "pytest found no tests", "check the path in [test] command: {project} is the source tree"
    elif "file or directory not found" in line:
        hint = (
            "it runs in an empty folder: name the whole path; {project} in [test] command is the source tree"
        )
    elif shadowed and re.search(r"ImportError|ModuleNotFoundError", "\n".join(ran.lines)):
        hint = (
            f"the source tree's own {shadowed}/ may be found before the installed one: "
            "copy the tests alone beside it, with [test] sources"
        )
    return ActionError.of(failure(shown, ran.status, line), hint=hint)


def pytest_summary(lines: Sequence[str]) -> str:
    """Return pytest's last line without its frame: "1 failed, 12 passed in 0.21s", or ""."""
    for line in reversed(lines):
        text = line.strip("= ")
        if _TIME.search(text) and (_COUNT.search(text) or text.startswith("no tests ran")):
            return text
    return ""


class Ran(NamedTuple):
    """A command that ended: its exit status (negative: a signal), its seconds, and its last lines."""

    status: int
    seconds: float
    lines: tuple[str, ...]


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
    reader.join(timeout=_GRACE)  # processes that it left running may hold the pipe for ever
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


def last_line(lines: Sequence[str]) -> str:
    """Return the most telling line of a failure: the last that is not blank, where Python writes its error."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def failure(command: str, status: int, line: str) -> str:
    """Return how a failed command ended, with the line of its output that explains it."""
    ended = f"failed with exit status {status}"
    if status < 0:
        known = -status in {number.value for number in signal.Signals}
        ended = f"was ended by {signal.Signals(-status).name if known else f'signal {-status}'}"
    return f"`{command}` {ended}" + (f": {line}" if line else "")
