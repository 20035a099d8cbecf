"""`gpuforge doctor`: what this machine can build, test and audit, and the command that mends each lack."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from gpuforge.cli import folders
from gpuforge.cli.images import connected
from gpuforge.cli.options import PATH, Call, as_json, pass_call
from gpuforge.cli.terminal import results_console
from gpuforge.diagnostics import shown
from gpuforge.errors import GpuforgeError, MissingError
from gpuforge.manifest.load import FILE_NAME
from gpuforge.plan.cell import Choice
from gpuforge.plan.site import ThisMachine
from gpuforge.plan.survey import machine_type

_PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")  # those that gpuforge builds for
_MARKS = {"there": ("✓", "green"), "missing": ("✗", "red"), "optional": ("·", "dim")}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for; `state` is a key of `_MARKS`, `optional` is missing and not always needed."""

    topic: str
    state: str
    text: str
    hint: str = ""


@click.command("doctor")
@click.argument("path", default=".", type=PATH)
@as_json
@pass_call
def command(call: Call, /, path: Path, as_json: bool) -> int:
    """Say what this machine can build, test and audit, and how to mend what is missing.

    If PATH (default: here) has a gpuforge.toml, its cells are checked as `gpuforge build` would. Nothing is fetched or
    built. Exit status: 0 if local processes can build wheels here (those of the manifest, if there is one), else 3.
    """
    checks = [*_local(call), *_containers(call), *_rest(), *_manifest(call, path)]
    if as_json:
        click.echo(json.dumps({"schema": 1, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _table(checks)
    return MissingError.exit_code if any(check.state == "missing" for check in checks) else 0


def _table(checks: list[Check]) -> None:
    console, topic = results_console(), ""
    for check in checks:
        if check.topic != topic:
            topic = check.topic
            console.print(f"\n{topic}" if check is not checks[0] else topic, style="bold", highlight=False)
        mark, style = _MARKS[check.state]
        console.print(f"  [{style}]{mark}[/] ", end="", highlight=False)
        console.print(shown(check.text), markup=False, highlight=False, soft_wrap=True)
        if check.hint:
            console.print(
                f"    {shown(check.hint)}", style="dim", markup=False, highlight=False, soft_wrap=True
            )


def _look(topic: str, look: Callable[[], str], *, optional: bool = False) -> Check:
    """Return what a look found, or its error's message and hint."""
    try:
        return Check(topic, "there", look())
    except MissingError as error:
        (first, *_) = error.diagnostics
        return Check(topic, "optional" if optional else "missing", first.message, first.hint)


def _local(call: Call) -> Iterator[Check]:
    topic, here = "builds with local processes", ThisMachine()

    def compiler(family: str) -> str:
        found = here.detect(family)
        return f"{found.family} {found.version}: {found.path}"

    yield _look(topic, lambda: compiler("g++"))
    yield _look(topic, lambda: compiler("clang++"), optional=True)
    pythons = [_look(topic, lambda minor=minor: _python(here, minor), optional=True) for minor in _PYTHONS]  # type: ignore[misc]
    yield from pythons
    if not any(check.state == "there" for check in pythons):
        yield Check(
            topic,
            "missing",
            "no Python to build for",
            "install one with its headers (python3-dev, uv python install 3.12)",
        )
    yield Check(
        topic, "there", "CUDA compilers: fetched from PyPI, Debian or NVIDIA when a manifest needs one"
    )
    try:
        folders.check(Path("dist"), call.cache, call.environ)
        yield Check(topic, "there", f"finished work is kept in {call.cache}")
    except MissingError as error:
        yield from (Check(topic, "missing", each.message, each.hint) for each in error.diagnostics)


def _python(here: ThisMachine, minor: str) -> str:
    found = here.find(minor)
    return f"CPython {found.version}: {found.path}"


def _containers(call: Call) -> Iterator[Check]:
    from gpuforge.containers import catalog

    topic = "builds in containers"
    try:
        engine = connected(call)
    except MissingError as error:
        (first, *_) = error.diagnostics
        yield Check(topic, "optional", first.message, first.hint)
        return
    images = [image.name for image in catalog.images() if engine.find(image.reference)]
    yield Check(topic, "there", "an engine answers")
    if images:
        yield Check(topic, "there", f"images: {', '.join(images)}")
    else:
        yield Check(
            topic,
            "optional",
            "none of gpuforge's images is here",
            "gpuforge images build bookworm bookworm-test",
        )


def _rest() -> Iterator[Check]:
    from gpuforge.containers.container import gpus

    if count := gpus():
        yield Check(
            "tests on a GPU", "there", f"{count} with NVIDIA's driver; wheels' tests see it with --gpu"
        )
    else:
        yield Check("tests on a GPU", "optional", "no NVIDIA GPU: wheels are tested without one")
    if find_spec("distributed"):
        yield Check("builds on a cluster", "there", "dask is installed (--runner dask)")
    else:
        yield Check(
            "builds on a cluster", "optional", "dask is not installed", "pip install distributed cryptography"
        )
    yield Check("audits", "there", "nothing else is needed")


def _manifest(call: Call, path: Path) -> Iterator[Check]:
    """Yield what a plan of the manifest says; nothing if there is none."""
    from gpuforge.cli.planning import left_out_by_reason, planned

    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        return
    topic = file.as_posix()
    try:
        made = planned(path, Choice(), machine_type(), lambda _: [], call.environ)
    except GpuforgeError as error:
        yield from (Check(topic, "missing", each.head, each.hint) for each in error.diagnostics)
        return
    cells = [cell.id for cell in made.selection.cells]
    yield Check(topic, "there", f"can be built here: {', '.join(cells)}")
    hints = {each for item in made.selection.missing for each in item.reason.facts["hints"]}
    for reason, names in left_out_by_reason(made.selection.left_out).items():
        yield Check(topic, "missing", f"{reason}: {', '.join(names)}", "; ".join(sorted(hints)))
