"""Text of a manifest that looks like a placeholder of an action reaches its command as it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plan_samples import AS_COMMAND, COMMAND, ONE_CELL, PLUGGED, plan_of, with_plug
from plug_in_samples import install_plug_in

from gpuforge.execute.substitution import RunPaths, fill, write_request
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.action import Action
from gpuforge.plan.site import Machine

TEXT = "a${work}-${in:x}-${stage:source}-$${work}-$1$$"
SOURCE = "kernels/${work}.cu"


def filled(action: Action, folder: Path) -> Iterator[str]:
    """Every text that an action's command gets, with its placeholders filled."""
    places = RunPaths(Path("/work"), Path("/out"), {name: Path("/in", name) for name in action.inputs})
    argv, env = fill(action, places)
    yield from argv
    yield from env.values()
    yield from texts(json.loads(write_request(action, places, folder) or "[]"))


def texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    for each in (data.values() if isinstance(data, dict) else data) if isinstance(data, (dict, list)) else ():
        yield from texts(each)


def users(file: ManifestFile, machine: Machine, folder: Path, text: str) -> set[str]:
    """The actions of a cell that get a text of the manifest, by the ends of their ids."""
    plan = plan_of(file, machine, **ONE_CELL)
    found = {action.id for action in plan.actions if any(text in each for each in filled(action, folder))}
    return {name.partition("/")[2] for name in found}


@pytest.mark.thorough
def test_every_placeholder_of_a_plan_is_filled(recipe, machine, tmp_path):
    with install_plug_in(tmp_path / "site"):
        build = '\n[build]\nenv = { X = "{toolkit}" }\nconfig-settings = { x = "{project}" }\n'
        for file in (with_plug(recipe), recipe(*AS_COMMAND, add=COMMAND), recipe(add=build)):
            for action in plan_of(file, machine, **ONE_CELL).actions:
                assert [text for text in filled(action, tmp_path) if "$" in text] == [], action.id


@pytest.mark.parametrize(
    ("key", "actions"),
    [
        (f'[build]\nenv = {{ X = "{TEXT}" }}', {"hook", "host-build"}),
        (f'[build]\nbefore = [["echo", "{TEXT}"]]', {"host-build"}),
        (f'[build]\nconfig-settings = {{ x = "{TEXT}" }}', {"hook", "host-build"}),
        (f'[build]\nconfig-settings = {{ x = ["{TEXT}"] }}', {"hook", "host-build"}),
        (f'[test]\ncommand = ["echo", "{TEXT}"]', {"test"}),
    ],
)
def test_text_of_builds_and_tests(recipe, machine, tmp_path, key, actions):
    assert users(recipe(add=f"\n{key}\n"), machine, tmp_path, TEXT) == actions


def test_flags(recipe, machine, tmp_path):
    flags = f'sources = ["kernels/*.cu"]\nflags = ["-D{TEXT}"]'
    file = recipe(('sources = ["kernels/*.cu"]', flags))
    names = {f"kernels/default-kernels/kernels/{name}.cu" for name in ("one", "two")}
    assert users(file, machine, tmp_path, f"-D{TEXT}") == names
    user = recipe(('sources = ["mod/*.cpp"]', f'sources = ["mod/*.cpp"]\nflags = ["-D{TEXT}"]'))
    assert users(user, machine, tmp_path, f"-D{TEXT}") == {"kernels/mechanisms"}


def test_flags_of_a_fallback_library(recipe, machine, tmp_path):
    library = f'kind = "library"\nstands-in-for = "mechanisms"\nflags = ["-D{TEXT}"]'
    abi = 'toolchains = ["host"]\nabi = { version = "1", headers = ["mod/*.cpp"] }'
    for toolchain, sources in (("device", "kernels/*.cu"), ("host", "mod/*.cpp")):
        file = recipe(
            (
                '["kernels/*.cu"]\ntoolchain = "device"',
                f'["{sources}"]\ntoolchain = "{toolchain}"\n{library}',
            ),
            ('toolchains = ["host"]', abi),
        )
        assert users(file, machine, tmp_path, f"-D{TEXT}") == {"kernels/default-kernels/library"}


def test_a_command(recipe, machine, tmp_path):
    file = recipe(*AS_COMMAND, add=COMMAND.replace('"-a={arch}"', f'"{TEXT}", "${{include}}"'))
    assert users(file, machine, tmp_path, TEXT) == {"kernels/default-kernels/library", "kernels/mechanisms"}
    assert "kernels/default-kernels/library" in users(file, machine, tmp_path, "${include}")


def test_flags_of_a_compiler_from_a_package(recipe, machine, tmp_path):
    with install_plug_in(tmp_path / "site"):
        file = with_plug(recipe, add=PLUGGED.replace("-fast", TEXT))
        names = {f"kernels/filters/kernels/{name}.plug-cpu" for name in ("blur", "sharpen")}
        assert users(file, machine, tmp_path, TEXT) == names


def test_names_of_sources(recipe, machine, tmp_path):
    file = recipe(header=SOURCE)
    compiled = f"kernels/default-kernels/{SOURCE}"
    assert users(file, machine, tmp_path, SOURCE) == {compiled, "kernels/default-kernels"}


def test_inputs_are_copied_only_where_the_action_lists_them(recipe, machine):
    file = recipe(add=f'\n[build]\nenv = {{ X = "{TEXT}", Y = "${{stage:toolkit}}${{lay:toolkit}}" }}\n')
    plan = plan_of(file, machine, **ONE_CELL)
    (build,) = (action for action in plan.actions if action.kind == "build")
    assert (build.staged, build.laid) == (("source",), ("env",))
