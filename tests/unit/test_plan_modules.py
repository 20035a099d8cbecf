"""Libraries that users' own compilers make, and sets of modules: which toolchain gets which files."""

from typing import Any

import pytest
from plan_samples import AS_COMMAND, COMMAND, LoadRecipe, plan_of, problems, request_of

from gpuforge.errors import UsageError
from gpuforge.plan.action import ActionInput
from gpuforge.plan.site import Machine


def test_a_command_makes_a_library_in_the_build_environment(recipe, machine):
    plan = plan_of(recipe(*AS_COMMAND, add=COMMAND), machine, cuda=["13"])
    (made,) = [action for action in plan.actions if action.id == "cu13.0/kernels/default-kernels/library"]
    assert made.cells == ("cp311-cu13.0-x86_64", "cp313-cu13.0-x86_64")
    (gathered,) = [action for action in plan.actions if action.id == "cu13.0/kernels/mechanisms"]
    assert [each["by_command"] for each in request_of(gathered)["gathered"]["toolchains"]] == [True]
    spec = request_of(made)
    assert spec["argv"] == ["maketool", "-i", "{abi}", "{include}/mod", "{sources}", "-a={arch}"]
    assert spec["compiled"] == ["mod/a.cpp"]
    assert spec["abi_packages"] == {"tool": "major"}
    assert {"sources", "runtime"} == {*made.staged}
    assert made.inputs["env"] == ActionInput("py3.11-cu13.0/environment", "environment", links_out=True)
    assert {"cxx", "cc"} < made.inputs.keys()


def test_versions_in_an_abi_go_with_commands_alone(recipe, machine):
    (library, made) = AS_COMMAND
    file = recipe((library[0], library[1].replace('"tool"', '"host"')), made, add=COMMAND)
    assert [d.message for d in problems(file, machine)] == [
        "object 'default-kernels': its ABI has `packages`, which only a library made by a command can have, so far"
    ]


BACK_ENDS = """
[toolchains.runtime]
compiler = "nvrtc"
[toolchains.opencl]
compiler = "opencl"
"""


def of_modules(recipe: LoadRecipe, machine: Machine, sources: str, toolchains: str) -> dict[str, Any]:
    """The recipe that a wheel for CUDA 12 carries of a set of modules."""
    file = recipe(
        ('sources = ["mod/*.cpp"]', f"sources = {sources}"),
        ('toolchains = ["host"]', f'toolchains = {toolchains}\nkind = "module"'),
        add=BACK_ENDS,
    )
    for name in ("op.cu", "op.cl"):
        (file.folder / "mod" / name).write_text("")
    plan = plan_of(file, machine, cuda=["12"])
    (gathered,) = [action for action in plan.actions if action.id.endswith("/kernels/mechanisms")]
    (wheel,) = [action for action in plan.actions if action.id == "cp311-cu12.4-x86_64/wheel"]
    return {**request_of(gathered)["gathered"], "extras": request_of(wheel)["extras"]}


def test_each_toolchain_of_a_set_of_modules_compiles_its_own_files(recipe, machine):
    spec = of_modules(recipe, machine, '["mod/*.c*"]', '["device", "runtime", "opencl", "host"]')
    assert spec["kind"] == "module"
    assert [(each["family"], each["makes"], each["sources"]) for each in spec["toolchains"]] == [
        ("nvcc", "module", ["mod/op.cu"]),
        ("nvrtc", "module", ["mod/op.cu"]),
        ("opencl", "module", ["mod/op.cl"]),
        ("g++", "library", ["mod/a.cpp"]),
    ]
    assert [each["of_toolkit"] for each in spec["toolchains"]] == [True, False, False, False]
    assert spec["toolchains"][1]["install"] == {"": "pip install nvidia-cuda-nvrtc-cu12"}
    assert spec["extras"] == {
        "nvrtc": ["nvidia-cuda-nvrtc-cu12>=12,<13"],
        "opencl": ["pyopencl>=2022.1"],
    }


@pytest.mark.parametrize(
    ("sources", "toolchains", "message"),
    [
        (
            '["mod/op.cu"]',
            '["runtime", "opencl"]',
            "object 'mechanisms': opencl compiles none of its sources",
        ),
        ('["mod/*.c*"]', '["runtime"]', "object 'mechanisms': none of its toolchains compiles mod/a.cpp"),
    ],
)
def test_a_toolchain_without_files_and_a_file_without_one_are_refused(
    recipe, machine, sources, toolchains, message
):
    with pytest.raises(UsageError) as caught:
        of_modules(recipe, machine, sources, toolchains)
    (told,) = caught.value.diagnostics
    assert (told.message, bool(told.place and told.place.line), bool(told.hint)) == (message, True, True)
