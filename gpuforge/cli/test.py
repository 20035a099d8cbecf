"""`gpuforge test`: the test of `build` for wheels that are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from gpuforge.cli.options import PATH, Call, as_requirement, pass_call
from gpuforge.cli.terminal import complain, result, say
from gpuforge.errors import MissingError, UsageError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from gpuforge.manifest.load import ManifestFile
    from gpuforge.manifest.model import Manifest
    from gpuforge.plan.action import Step


@dataclass(frozen=True, kw_only=True)
class _Tests:
    """What is done with each wheel: the fields of `TryWheel` that its command line or its manifest gives."""

    package: str | None  # the import package; None: that of the wheel
    imports: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    extras: tuple[str, ...]
    requires: tuple[str, ...]
    command: tuple[str, ...]
    beside: bool  # the command line names some of `requires`: without a command, the package is imported beside them
    indexes: Callable[[str], Mapping[str, str]] = lambda _: {}  # of packages, for the wheel's CUDA major
    project: Path | None = None
    built: tuple[Path, ...] = ()
    sources: tuple[str, ...] = ()


@click.command("test", context_settings={"allow_interspersed_args": True})
@click.argument(
    "arguments", nargs=-1, required=True, metavar="WHEEL... [-- COMMAND...]", type=click.UNPROCESSED
)
@click.option(
    "--gpu",
    is_flag=True,
    help="Test with this machine's GPUs, and fail if it has none. Without it, they and CUDA are hidden.",
)
@click.option(
    "--with",
    "beside",
    multiple=True,
    type=as_requirement,
    metavar="REQUIREMENT",
    help="Also install this, such as torch==2.11, or what the command needs, such as pytest.",
)
@click.option("--extra", "extras", multiple=True, metavar="NAME", help="Install the wheel with this extra.")
@click.option(
    "--import", "package", metavar="NAME", help="The package to import. Default: the one in the wheel."
)
@click.option(
    "--requirements",
    type=click.Choice(["newest", "oldest"]),
    default="newest",
    help="Which releases of what the wheel declares to install: the newest or the oldest ones that it allows.",
)
@click.option("--manifest", type=PATH, metavar="FILE", help="Do what [test] of this gpuforge.toml says.")
@click.option(
    "--axis", multiple=True, metavar="NAME=VALUE", help="With --manifest: the value of one of its [axes]."
)
@pass_call
def command(
    call: Call,
    /,
    arguments: tuple[str, ...],
    beside: tuple[Requirement, ...],
    manifest: Path | None,
    axis: tuple[str, ...],
    gpu: bool,
    requirements: str,
    **rest: Any,
) -> int:
    """Install each wheel with what it declares into an empty environment, import it, and run COMMAND.

    The packages come from the index, and this machine's CUDA is hidden, so a wheel passes only if users who install it
    with pip have all that it needs. COMMAND runs with that environment's programs first on PATH, in an empty folder; of
    a manifest, {project} is its folder.
    """
    wheels, words = _split(arguments)
    named = tuple(map(str, beside))
    tests = _Tests(requires=named, command=words, beside=bool(named), **rest)
    from gpuforge.containers.container import gpus

    if manifest:
        from gpuforge.manifest.load import load

        tests = _of_manifest(_at(load(manifest), axis), tests)
    elif axis:
        raise click.UsageError("--axis is for a manifest: add --manifest FILE")
    if gpu and not gpus() and not Path("/dev/dxg").exists():  # the latter in WSL
        raise MissingError.of(
            "--gpu: this machine shows no NVIDIA GPU", hint="does nvidia-smi list one? Or leave --gpu out"
        )
    failed = 0
    for wheel in wheels:
        if not wheel.is_file():
            raise click.UsageError(f"{wheel} is not a file: give wheels")
        say(wheel.name)
        with TemporaryDirectory(prefix="gpuforge-test-") as folder:
            oldest = requirements == "oldest"
            failed += _test(wheel.absolute(), Path(folder), tests, call.environ, gpu=gpu, oldest=oldest)
    return int(failed > 0)


def _split(arguments: tuple[str, ...]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the wheels and the words of the command, which begins with the first argument that is not a wheel."""
    count = next((n for n, each in enumerate(arguments) if not each.endswith(".whl")), len(arguments))
    if not count:
        raise click.UsageError(f"{arguments[0]} is not a wheel: give wheels, then `--` and a command")
    return [Path(each) for each in arguments[:count]], arguments[count:]


def _at(file: ManifestFile, axis: tuple[str, ...]) -> ManifestFile:
    """Return the manifest with these values of its axes ("torch=2.11"), and the first of each other axis."""
    from gpuforge.manifest.axes import points

    chosen = {tuple(each.split("=", 1)) for each in axis}
    found = next((point for point in points(file.data) if chosen <= {*point.values}), None)
    if found is None:
        raise UsageError.of(
            f"--axis {', '.join(axis)}: the manifest has no such combination",
            hint="; ".join(f"{name}: {', '.join(values)}" for name, values in file.manifest.axes.items()),
        )
    return file.at(found)


def _of_manifest(file: ManifestFile, given: _Tests) -> _Tests:
    """Return the tests of a manifest; what the command line gives goes first."""
    test = file.manifest.test
    return _Tests(
        package=given.package or file.manifest.package.import_,
        imports=test.imports,
        drivers=test.drivers,
        extras=given.extras or tuple(test.extras),
        requires=(*test.requires, *given.requires),
        command=given.command or test.command,
        beside=given.beside,
        indexes=partial(_indexes, file.manifest),
        project=file.folder,
        built=tuple(file.folder / each / "dist" for each in (*file.manifest.build.build, *test.build)),
        sources=tuple(test.sources),
    )


def _indexes(manifest: Manifest, cuda: str) -> Mapping[str, str]:
    """Return the indexes of a manifest for its first toolkit of a wheel's CUDA major."""
    from gpuforge.cuda.version import is_of
    from gpuforge.plan.recipe import indexes_of

    toolkits = [each.toolkit for each in manifest.cuda.versions.values() if is_of(each.toolkit, cuda)]
    return indexes_of(manifest, toolkits[0] if toolkits else cuda)


def _test(
    wheel: Path, folder: Path, tests: _Tests, environ: Mapping[str, str], *, gpu: bool, oldest: bool
) -> bool:
    """Test one wheel and write the outcome; return whether it failed."""
    from gpuforge.actions.trial import FetchTestRequirements, TryWheel
    from gpuforge.actions.trial_result import TrialResult
    from gpuforge.cli.build_report import gaps_of_test, words_of_test
    from gpuforge.plan import variables

    package, cuda = tests.package or _package(wheel), _cuda(wheel)
    beside = ("python", "-c", f"import {package}") if tests.beside else ()
    python = _python(wheel)
    env = dict(environ)
    shared = folder / "shared" / "out" / "wheels" if tests.requires and not oldest else None
    fetch = FetchTestRequirements[Path](
        python=python,
        built=tests.built,
        requires=tests.requires,
        indexes=tests.indexes(cuda),
        cuda=cuda,
        oldest=oldest,
    )
    if shared and not _perform(fetch, folder / "shared", env):
        return True
    fetch = replace(fetch, wheel=wheel, shared=shared, extras=tests.extras)
    if not _perform(fetch, folder / "fetch", env):
        return True
    trial = TryWheel[Path](
        python=python,
        wheel=wheel,
        needed=folder / "fetch" / "out" / "wheels",
        shared=shared,
        built=tests.built,
        project=tests.project,
        tests=_sources(tests, folder / "sources"),
        cell=wheel.name,
        extras=tests.extras,
        cuda=cuda,
        package=package,
        imports=tests.imports,
        drivers=tests.drivers,
        stub=not gpu,
        requires=tests.requires,
        command=tests.command or beside,
    )
    work = folder / "test"
    hidden = variables.test(environ, "pip", environ.get("PATH", os.defpath), gpu=gpu)
    if not _perform(trial, work, {name: text.replace("${work}", str(work)) for name, text in hidden.items()}):
        return True
    done = TrialResult.read(work / "out" / "result.json")
    result(f"  ✓ {line}\n" for line in words_of_test(done, gpu=gpu, named=oldest))
    result(f"  - {line}\n" for line in gaps_of_test(done))
    return False


def _python(wheel: Path) -> Path:
    """Return the interpreter to test a wheel on: gpuforge's own, or one of the Python that the wheel is for."""
    from gpuforge.cli.audit_with import python_for
    from gpuforge.cpython import CPython
    from gpuforge.toolchains import cpython

    minor = python_for(None, [wheel])
    own = str(CPython(*sys.version_info[:2]))
    return Path(sys.executable).resolve() if minor == own else cpython.find(minor).path


def _perform(step: Step[Path], folder: Path, env: Mapping[str, str]) -> bool:
    """Run a step in a process of its own, its log to stderr; return whether it succeeded."""
    from pydantic import TypeAdapter

    from gpuforge.actions import entry
    from gpuforge.plan.action import RESULT, StepResult

    (folder / "out").mkdir(parents=True)
    request = folder / "request.json"
    request.write_bytes(TypeAdapter(type(step)[Path]).dump_json(step))  # type: ignore[index]
    ended = folder / "out" / RESULT
    command = [sys.executable, "-P", "-m", entry.__name__, step.program(), str(request), str(ended)]
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=sys.stderr, stderr=subprocess.DEVNULL, check=False
    )
    if done.returncode == 0:
        return True
    complain([error] if (error := StepResult.read(ended).error) else [])
    return False


def _sources(tests: _Tests, folder: Path) -> Path | None:
    """Copy the manifest's `[test] sources` into a folder, alone; None if it names none."""
    if not (tests.sources and tests.project):
        return None
    for name in tests.sources:
        source, target = tests.project / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    return folder


def _package(wheel: Path) -> str:
    """Return the import package of a wheel: the only one, or that with the distribution's name; raises UsageError."""
    from gpuforge.wheel import filename
    from gpuforge.wheel.archive import Archive

    with Archive(wheel) as archive:
        names = [each.name for each in archive.members]
    tops = {top for name in names if (top := _module(name))}
    own = filename.project(wheel.name).replace("-", "_")
    if own in tops or len(tops) == 1:
        return own if own in tops else tops.pop()
    raise UsageError.of(
        f"{wheel.name} has {', '.join(sorted(tops)) or 'no package'}",
        hint="say what to import: --import NAME",
    )


def _module(member: str) -> str:
    """Return the top-level package or module that a file of a wheel makes importable; "" for another file."""
    top, _, rest = member.partition("/")
    name = top.partition(".")[0]
    is_module = not rest and (top.endswith(".py") or ".so" in top)
    return name if name.isidentifier() and (is_module or rest.startswith("__init__.")) else ""


def _cuda(wheel: Path) -> str:
    """Return the CUDA major of a wheel by its name, or by its newest extra; "" for none."""
    from gpuforge.cuda.suffix import major_of_extra, major_of_local, major_of_suffix
    from gpuforge.wheel import metadata
    from gpuforge.wheel.filename import WheelName

    name = WheelName.parse(wheel.name)
    extras = metadata.fields(metadata.of_wheel(wheel), "Provides-Extra")
    newest = max((major for each in extras if (major := major_of_extra(each))), default=None)
    major = major_of_suffix(name.distribution) or major_of_local(name.version) or newest
    return str(major) if major else ""
