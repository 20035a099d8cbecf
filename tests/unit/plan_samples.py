"""What tests of the plan share."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.action import Action
from gpuforge.plan.cell import Choice, select
from gpuforge.plan.keys import keys
from gpuforge.plan.site import Machine

LoadRecipe = Callable[..., ManifestFile]
ONE_CELL: dict[str, list[str]] = {"cuda": ["13"], "python": ["3.11"]}

# Variables of a user.
ENVIRON = {
    "HOME": "/home/me",
    "PATH": "/usr/bin",
    "SSH_AUTH_SOCK": "/run/agent",
    "HTTPS_PROXY": "http://proxy:1",
}


def plan_of(
    file: ManifestFile,
    machine: Machine,
    environ: Mapping[str, str] = ENVIRON,
    *,
    test: bool = True,
    **choice: Iterable[str],
) -> Plan:
    cells = select(file, "x86_64", Choice(**choice)).cells  # type: ignore[arg-type]
    return lower(file, cells, machine, environ, test=test)


def problems(file: ManifestFile, machine: Machine, **choice: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return what is wrong with what cannot be planned, each with its place in the manifest."""
    with pytest.raises(UsageError) as caught:
        plan_of(file, machine, **choice)
    found = caught.value.diagnostics
    assert all(each.place and each.place.line for each in found)
    return tuple(found)


def changed(before: Plan, after: Plan) -> set[str]:
    """The ids of the actions whose keys differ."""
    old, new = keys(before.actions), keys(after.actions)
    assert set(old) == set(new)
    return {name for name in old if old[name].digest != new[name].digest}


def request_of(action: Action) -> dict[str, Any]:
    """The fields of an action's step; a handle is the name of its type."""
    assert action.step
    found: dict[str, Any] = json.loads(action.step.text())
    return found


PACKAGE = """\
schema = 1
[package]
name = "demo"
python = ["3.11"]
"""
WITH_CUDA = (
    PACKAGE
    + """\
[cuda.13]
toolkit = "13.0"
archs = ["80"]
"""
)
COMMAND = """
[toolchains.tool]
compiler = "command"
command = ["maketool", "-i", "{abi}", "{include}/mod", "{sources}", "-a={arch}"]
product = "*/libmech.so"
"""
_LIBRARY = 'sources = ["mod/*.cpp"]\ntoolchain = "tool"\nkind = "library"\nstands-in-for = "mechanisms"'
_ABI = 'abi = { version = "1", headers = ["mod/*.cpp"], packages = { tool = "major" } }'
AS_COMMAND = (
    ('sources = ["kernels/*.cu"]\ntoolchain = "device"', _LIBRARY),
    ('toolchains = ["host"]', f'toolchains = ["tool"]\n{_ABI}'),
)
PLUGGED = """
[toolchains.outside]
compiler = "plugged"
version = ">=2,<3"
flags = ["-fast"]

[[objects]]
name = "filters"
role = "fallback"
kind = "library"
sources = ["kernels/*.plug"]
toolchain = "outside"
abi = { version = "1", headers = ["kernels/*.plug"] }
"""


def with_plug(recipe: LoadRecipe, *replace: tuple[str, str], add: str = PLUGGED) -> ManifestFile:
    file = recipe(*replace, add=add)
    for name in ("blur", "sharpen"):
        (file.folder / "kernels" / f"{name}.plug").write_text(name)
    return file
