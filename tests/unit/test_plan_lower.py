"""From cells to actions: what is shared, what depends on what, and what is in a key."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from gpuforge.cuda.arch import targets
from gpuforge.errors import UsageError
from gpuforge.execute.substitution import RunPaths, write_request
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan import programs, variables
from gpuforge.plan.action import Action, ActionInput, FileInput
from gpuforge.plan.cell import select
from gpuforge.plan.keys import keys
from gpuforge.plan.lower.cell_actions import Plan, lower
from gpuforge.plan.site import Machine
from gpuforge.plan.survey import unfit_compilers
from gpuforge.toolchains.family import Compiler
from gpuforge.toolkits import debian_compilers
from gpuforge.toolkits.select import select as select_toolkit

Recipe = Callable[..., ManifestFile]


def plan_of(file: ManifestFile, machine: Machine, **choice: Iterable[str]) -> Plan:
    return lower(file, select(file, "x86_64", **choice).cells, machine)  # type: ignore[arg-type]


def changed(before: Plan, after: Plan) -> set[str]:
    """The ids of the actions whose keys differ."""
    old, new = keys(before.actions), keys(after.actions)
    assert set(old) == set(new)
    return {name for name in old if old[name].digest != new[name].digest}


def test_kernels_are_compiled_once_per_toolkit_whatever_the_pythons(recipe: Recipe, machine: Machine) -> None:
    plan = plan_of(recipe(), machine)
    kinds = [action.kind for action in plan.actions]
    assert kinds.count("compile") == 2 * 2  # sources by toolkits
    assert kinds.count("build") == 2 * 2  # Pythons by toolkits
    assert kinds.count("audit") == len(plan.cells) == 4
    compiled = next(
        action for action in plan.actions if action.id == "cu13.0/kernels/default-kernels/kernels/one.cu"
    )
    assert compiled.cells == ("cp311-cu13.0-x86_64", "cp313-cu13.0-x86_64")


def test_a_host_build_without_cuda_is_done_once_per_python(recipe: Recipe, machine: Machine) -> None:
    without = replace(machine, host_cuda=False)
    plan = plan_of(recipe(add="\n[build]\ncuda = false\n"), without)
    builds = {action.id: action for action in plan.actions if action.kind == "build"}
    assert list(builds) == ["py3.11/host-build", "py3.13/host-build"]
    build = builds["py3.11/host-build"]
    assert build.cells == ("cp311-cu12.4-x86_64", "cp311-cu13.0-x86_64")
    assert "toolkit" not in build.inputs
    assert "CUDA" not in "".join([*build.env, *build.env.values(), *build.argv, build.request])
    wheels = [action for action in plan.actions if action.id.endswith("/wheel")]
    assert {action.inputs["wheel"].action for action in wheels} == set(builds)  # type: ignore[union-attr]
    alone = plan_of(recipe(add="\n[build]\ncuda = false\n"), without, cuda=["13"])
    assert {k: v.digest for k, v in keys(alone.actions).items()}.items() <= {
        k: v.digest for k, v in keys(plan.actions).items()
    }.items()


def test_only_fetches_reach_the_network(recipe: Recipe, machine: Machine) -> None:
    plan = plan_of(recipe(), machine)
    assert {action.kind for action in plan.actions if action.network} == {"fetch"}
    assert all(action.network for action in plan.actions if action.kind == "fetch")
    assert {action.kind for action in plan.actions if action.passes} == {"fetch", "build"}


def test_the_compiler_cache_is_in_no_key_and_host_builds_share_a_path(
    recipe: Recipe, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plan_of(recipe(), machine)
    for name in ("SCCACHE_BUCKET", "AWS_SECRET_ACCESS_KEY", "GPUFORGE_NO_SCCACHE", "SCCACHE_SERVER_PORT"):
        monkeypatch.setenv(name, "secret")
    after = plan_of(recipe(), machine)
    assert changed(before, after) == set()
    builds = [action for action in after.actions if action.kind == "build"]
    assert {action.place for action in builds} == {"host-build"}
    assert {action.place for action in after.actions if action.kind != "build"} == {""}
    assert {"SCCACHE_DIR", "SCCACHE_BUCKET", "AWS_SECRET_ACCESS_KEY"} < set(builds[0].passes)
    assert "SCCACHE_SERVER_PORT" not in builds[0].passes
    assert variables.build_passes(contained=True) == ("GPUFORGE_NO_SCCACHE", "SCCACHE_CACHE_SIZE")


def test_a_kernel_source_touches_only_its_toolkits_kernels_and_wheels(
    recipe: Recipe, machine: Machine
) -> None:
    file = recipe()
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    (file.folder / "kernels/one.cu").write_text("// changed\n")
    assert changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"])) == {
        "cu13.0/kernels/default-kernels/kernels/one.cu",
        "cu13.0/kernels/default-kernels",
        *(f"cp311-cu13.0-x86_64/{name}" for name in ("wheel", "audit", "test-requirements", "test")),
    }


def test_a_host_source_leaves_kernels_alone(recipe: Recipe, machine: Machine) -> None:
    file = recipe()
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    (file.folder / "src/core.cpp").write_text("int main() { return 1; }\n")
    assert changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"])) == {
        *(
            f"py3.11-cu13.0/{name}" for name in ("hook", "backend-requirements", "environment", "carried")
        ),  # the hook may read it
        *(
            f"cp311-cu13.0-x86_64/{name}"
            for name in ("host-build", "links", "provided", "wheel", "audit", "test-requirements", "test")
        ),
    }


def rewritten(file: ManifestFile, old: str, new: str) -> ManifestFile:
    """The manifest with some of its text changed."""
    assert old in file.text
    file.path.write_text(file.text.replace(old, new))
    return load(file.folder)


def test_a_comment_in_the_manifest_changes_no_key(recipe: Recipe, machine: Machine) -> None:
    file = recipe(add='\n[test]\ncommand = ["python", "-V"]\n')
    before = plan_of(file, machine)
    commented = rewritten(file, "[test]", "# how the wheel is tested\n\n[test]")
    assert changed(before, plan_of(commented, machine)) == set()


def test_the_test_command_changes_the_test_alone(recipe: Recipe, machine: Machine) -> None:
    file = recipe(add='\n[test]\ncommand = ["python", "-V"]\n')
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    other = rewritten(file, '"-V"', '"-VV"')
    after = plan_of(other, machine, cuda=["13"], python=["3.11"])
    assert changed(before, after) == {"cp311-cu13.0-x86_64/test"}


def test_what_the_audit_accepts_changes_the_audit_alone(recipe: Recipe, machine: Machine) -> None:
    file = recipe(add='\n[audit]\nignore = [{ rule = "GF101", reason = "one" }]\n')
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    other = rewritten(file, '"one"', '"two"')
    after = plan_of(other, machine, cuda=["13"], python=["3.11"])
    assert changed(before, after) == {"cp311-cu13.0-x86_64/audit"}


def test_build_products_are_no_source(recipe: Recipe, machine: Machine) -> None:
    file = recipe()
    before = plan_of(file, machine)
    (file.folder / "build/junk.o").write_text("other")
    (file.folder / "src/__pycache__").mkdir()
    (file.folder / "src/__pycache__/x.cpython-311.pyc").write_text("other")
    assert changed(before, plan_of(file, machine)) == set()


def test_another_folder_has_the_same_keys(
    recipe: Recipe, machine: Machine, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recipe()
    first = plan_of(file, machine)
    elsewhere = file.folder.with_name("elsewhere")
    file.folder.rename(elsewhere)
    assert changed(first, plan_of(load(elsewhere), machine)) == set()


def test_in_host_build_keeps_object_sources_in_the_tree(recipe: Recipe, machine: Machine) -> None:
    def tree(file: ManifestFile) -> tuple[str, ...] | None:
        plan = plan_of(file, machine)
        host = next(action for action in plan.actions if action.kind == "build")
        return host.inputs["source"].members  # type: ignore[union-attr]

    assert tree(recipe()) == ("pyproject.toml", "src/core.cpp")
    kept = recipe(('sources = ["mod/*.cpp"]', 'sources = ["mod/*.cpp"]\nin-host-build = true'))
    assert tree(kept) == ("mod/a.cpp", "pyproject.toml", "src/core.cpp")


def test_a_pattern_without_a_file_is_an_error(recipe: Recipe, machine: Machine) -> None:
    file = recipe(("kernels/*.cu", "kernel/*.cu"))
    with pytest.raises(UsageError, match=r"object 'default-kernels': 'kernel/\*\.cu' matches no file"):
        plan_of(file, machine)


def test_needs_that_name_no_library_of_a_gpu_stack_are_refused(recipe: Recipe, machine: Machine) -> None:
    files = 'files = ["**/*.so"]'
    with pytest.raises(UsageError) as caught:
        plan_of(recipe((files, f'{files}\nneeds = ["cufft", "cublass", "zlib"]')), machine)
    assert [(d.message, d.hint) for d in caught.value.diagnostics] == [
        (
            "object 'core': `needs` names 'cublass', which is not a known library of a GPU stack",
            "did you mean 'cublas'?",
        ),
        (
            "object 'core': `needs` names 'zlib', which is not a known library of a GPU stack",
            "leave it out: libraries of the host need no permission",
        ),
    ]
    assert all(d.place and d.place.line for d in caught.value.diagnostics)
    plan_of(recipe((files, f'{files}\nneeds = ["cufft", "nvjitlink", "cuda", "OpenCL"]')), machine)


def test_what_cannot_be_built_yet_is_refused_all_at_once(recipe: Recipe, machine: Machine) -> None:
    file = recipe(
        ('toolchain = "device"', 'toolchain = "other"\nkind = "library"\nstands-in-for = "mechanisms"'),
        (
            'toolchains = ["host"]',
            'toolchains = ["host"]\nabi = { version = "1", headers = ["kernels/*.cu"] }',
        ),
        add="""
[toolchains.other]
compiler = "clang++"
[[objects]]
name = "more-kernels"
role = "fallback"
sources = ["kernels/*.cu"]
toolchain = "host"
""",
    )
    with pytest.raises(UsageError) as caught:
        plan_of(file, machine)
    assert [d.message for d in caught.value.diagnostics] == [
        "object 'default-kernels': libraries are compiled by nvcc, the host toolchain or a command, so far",
        "object 'more-kernels': modules are compiled by nvcc and iree only, so far",
    ]
    assert all(d.place and d.place.line and d.hint for d in caught.value.diagnostics)


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


def test_a_command_makes_a_library_in_the_build_environment(recipe: Recipe, machine: Machine) -> None:
    plan = plan_of(recipe(*AS_COMMAND, add=COMMAND), machine, cuda=["13"])
    (made,) = [action for action in plan.actions if action.id == "cu13.0/kernels/default-kernels/library"]
    assert made.cells == ("cp311-cu13.0-x86_64", "cp313-cu13.0-x86_64")
    spec = request_of(made)
    assert spec["argv"] == [
        *("maketool", "-i", "${work}/gpuforge_abi.c", "${stage:sources}/mod", "${stage:sources}/mod/a.cpp")
    ]
    assert spec["packages"] == {"tool": "major"}
    assert made.inputs["env"] == ActionInput("py3.11-cu13.0/environment", "environment")
    assert (made.env["CXX"], made.env["CC"]) == ("${in:cxx}", "${in:cc}")


def test_versions_in_an_abi_go_with_commands_alone(recipe: Recipe, machine: Machine) -> None:
    (library, made) = AS_COMMAND
    file = recipe((library[0], library[1].replace('"tool"', '"host"')), made, add=COMMAND)
    with pytest.raises(UsageError) as caught:
        plan_of(file, machine)
    assert [d.message for d in caught.value.diagnostics] == [
        "object 'default-kernels': its ABI has `packages`, which only a library made by a command can have, so far"
    ]


BACK_ENDS = """
[toolchains.runtime]
compiler = "nvrtc"
[toolchains.opencl]
compiler = "opencl"
"""


def of_modules(recipe: Recipe, machine: Machine, sources: str, toolchains: str) -> dict[str, Any]:
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
    return {**request_of(gathered), "extras": request_of(wheel)["extras"]}


def test_each_toolchain_of_a_set_of_modules_compiles_its_own_files(recipe: Recipe, machine: Machine) -> None:
    spec = of_modules(recipe, machine, '["mod/*.c*"]', '["device", "runtime", "opencl", "host"]')
    assert spec["kind"] == "module"
    assert [(each["family"], each["makes"], each["sources"]) for each in spec["toolchains"]] == [
        ("nvcc", "module", ["mod/op.cu"]),
        ("nvrtc", "module", ["mod/op.cu"]),
        ("opencl", "module", ["mod/op.cl"]),
        ("g++", "library", ["mod/a.cpp"]),
    ]
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
    recipe: Recipe, machine: Machine, sources: str, toolchains: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        of_modules(recipe, machine, sources, toolchains)
    (told,) = caught.value.diagnostics
    assert (told.message, bool(told.place and told.place.line), bool(told.hint)) == (message, True, True)


def test_a_path_that_would_change_nothing_is_refused(recipe: Recipe, machine: Machine) -> None:
    file = recipe(
        ('toolchains = ["', 'toolchains = ["theirs", "'),
        ('compiler = "nvcc"', 'compiler = "nvcc"\npath = "/opt/cuda/bin/nvcc"'),
        add='[toolchains.theirs]\ncompiler = "g++"\npath = "/usr/bin/g++-12"\n'
        '[toolchains.idle]\ncompiler = "clang++"\npath = "/usr/bin/clang++"\n',
    )
    with pytest.raises(UsageError) as caught:
        plan_of(file, machine)
    assert [(d.message, d.hint) for d in caught.value.diagnostics] == [
        (
            "[toolchains.device] path: nvcc is always the one of the toolkit",
            "leave it out; [cuda.*] toolkit and provider choose the toolkit",
        ),
        (
            "[toolchains.theirs] path: the compiler is looked for on the user's machine",
            "leave it out; `version` says which ones are taken",
        ),
        (
            "[toolchains.idle] path: nothing is compiled with this toolchain here",
            "leave it out; the host build uses [toolchains.host]",
        ),
    ]


def test_the_path_of_the_host_compiler_is_taken(recipe: Recipe, machine: Machine) -> None:
    file = recipe(('compiler = "g++"', 'compiler = "g++"\npath = "/usr/bin/g++"'))
    assert plan_of(file, machine).actions


def test_a_variant_is_made_of_the_proved_wheel(recipe: Recipe, machine: Machine) -> None:
    file = recipe(add='\n[wheel]\nnaming = ["suffix", "variant"]\n')
    plan = plan_of(file, machine, cuda=["13"], python=["3.11"])
    cell = "cp311-cu13.0-x86_64-variant"
    made = next(action for action in plan.actions if action.id == f"{cell}/variant")
    assert made.needs == (f"{cell}/audit", f"{cell}/wheel")
    gpus = ("80_real", "90a_real", "90_real", "120_virtual")
    assert request_of(made) == {
        "wheel": "${in:wheel}",
        "cuda": "13.0",
        "gpus": list(gpus),
        "output": "${out:wheel}",
    }
    assert plan.wheels[cell].action == f"{cell}/variant"
    assert plan.wheels["cp311-cu13.0-x86_64-suffix"].action == "cp311-cu13.0-x86_64-suffix/wheel"
    named = {a.id: request_of(a)["naming"] for a in plan.actions if a.id.endswith("/wheel")}
    assert named == {f"{cell}/wheel": "plain", "cp311-cu13.0-x86_64-suffix/wheel": "suffix"}


def test_the_linkage_decides_on_cudart_and_is_in_the_record(recipe: Recipe, machine: Machine) -> None:
    plans = {
        linkage: plan_of(
            recipe(("[cuda]\n", f'[cuda]\nlinkage = "{linkage}"\n')), machine, cuda=["13"], python=["3.11"]
        )
        for linkage in ("pip", "bundle", "system", "static")
    }
    hosts = {name: next(a for a in plan.actions if a.kind == "build") for name, plan in plans.items()}
    for name, host in hosts.items():
        kind = "static" if name == "static" else "shared"
        assert host.env["CMAKE_ARGS"].endswith(f"-DCMAKE_CUDA_RUNTIME_LIBRARY={kind.title()}")
        assert host.env["NVCC_PREPEND_FLAGS"].endswith(f"-cudart={kind}")
    host_keys = {name: keys(plan.actions)[hosts[name].id].digest for name, plan in plans.items()}
    assert host_keys["pip"] == host_keys["bundle"] == host_keys["system"] != host_keys["static"]
    record = request_of(next(a for a in plans["bundle"].actions if a.id.endswith("/wheel")))["record"]
    assert record["linkage"] == "bundle"
    assert record["toolchains"] == {
        "device": {
            "family": "nvcc",
            "version": "13.0.88",
            "host": {"family": "g++", "version": "12.2.0"},
        },
        "host": {"family": "g++", "version": "12.2.0"},
    }
    assert record["toolkit"]["packages"]["nvidia-cuda-runtime"] == "13.0.96"
    assert str(recipe().folder.parent) not in json.dumps(record)


def request_of(action: Action) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(action.request)
    return found


def test_architectures_as_the_build_systems_write_them() -> None:
    several = targets(("80", "90a", "90+ptx", "120"), "120")
    assert (
        variables.cmake_architectures(several) == "80-real;90a-real;90-real;120-real;90-virtual;120-virtual"
    )
    assert variables.torch_architectures(several) == "8.0;9.0a;9.0;12.0;9.0+PTX;12.0+PTX"
    assert variables.cmake_architectures(targets(["75"])) == "75-real"


def test_an_unknown_need_and_a_circle_are_refused(recipe: Recipe, machine: Machine) -> None:
    plan = plan_of(recipe(), machine, cuda=["13"], python=["3.11"])
    some = [action for action in plan.actions if action.id != "cu13.0/toolkit"]
    with pytest.raises(ValueError, match=r"needs cu13\.0/toolkit, which is not in the plan"):
        keys(some)
    wheel = next(action for action in plan.actions if action.id.endswith("/wheel"))
    audit = next(action for action in plan.actions if action.id.endswith("/audit"))
    loop = [
        replace(a, inputs={**a.inputs, "x": audit.inputs["wheel"]}) if a is wheel else a for a in plan.actions
    ]
    with pytest.raises(ValueError, match="actions need each other"):
        keys(loop)


@pytest.mark.thorough
def test_argv_has_no_path_of_this_machine(recipe: Recipe, machine: Machine) -> None:
    def paths(action: Action) -> list[str]:
        words = (*action.argv, action.request)
        return [word for word in words if str(recipe().folder) in word or "/usr/bin/g++" in word]

    assert [paths(action) for action in plan_of(recipe(), machine).actions if paths(action)] == []


def test_the_toolkit_decides_on_nvcc(recipe: Recipe, machine: Machine) -> None:
    file = recipe(('compiler = "nvcc"', 'compiler = "nvcc"\npath = "/opt/nvcc"'))
    with pytest.raises(UsageError, match="nvcc is always the one of the toolkit"):
        plan_of(file, machine)


def test_an_nvcc_outside_the_declared_range_is_refused(recipe: Recipe, machine: Machine) -> None:
    file = recipe(('compiler = "nvcc"', 'compiler = "nvcc"\nversion = "<13"'))
    (problem,) = unfit_compilers(file, "13", machine.locations[0].toolkits["13"])
    assert problem.message == "[cuda.13] has nvcc 13.0.88, which is not <13"
    assert problem.place
    assert problem.place.line == 12
    assert not list(unfit_compilers(recipe(), "13", machine.locations[0].toolkits["13"]))


def test_a_header_touches_every_kernel_of_its_object(recipe: Recipe, machine: Machine) -> None:
    file = recipe(
        ('sources = ["kernels/*.cu"]', 'sources = ["kernels/*.cu"]\nheaders = ["kernels/*.cuh"]'),
        header="kernels/x.cuh",
    )
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    (file.folder / "kernels/x.cuh").write_text("// changed\n")
    touched = changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"]))
    assert {name for name in touched if name.endswith(".cu")} == {
        f"cu13.0/kernels/default-kernels/kernels/{name}.cu" for name in ("one", "two")
    }


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("kernels/**.cu", r"'kernels/\*\*\.cu' is not a valid pattern"),
        ("../recipe/kernels/*.cu", "leads out of the manifest's folder"),
    ],
)
def test_patterns_that_are_wrong(recipe: Recipe, machine: Machine, pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        plan_of(recipe(("kernels/*.cu", pattern)), machine)
    assert caught.value.diagnostics[0].place


def test_two_sources_of_one_module_name_are_refused(recipe: Recipe, machine: Machine) -> None:
    file = recipe(('sources = ["kernels/*.cu"]', 'sources = ["kernels/*.cu", "one.cu"]'), header="one.cu")
    with pytest.raises(UsageError, match=r"kernels/one\.cu and one\.cu would both give the module 'one'"):
        plan_of(file, machine)


@pytest.mark.parametrize("naming", ["plain", "suffix", "local"])
def test_wheels_that_would_overwrite_each_other_are_refused(
    recipe: Recipe, machine: Machine, naming: str
) -> None:
    second = "12" if naming == "plain" else "13.1"
    file = recipe(
        ("[cuda.12]\n", f'[cuda."{second}"]\n'),
        ('toolkit = "12.4"', f'toolkit = "{second}"' if "." in second else 'toolkit = "12.4"'),
        add=f'\n[wheel]\nnaming = ["{naming}"]\n',
    )
    (here,) = machine.locations
    toolkits = {**here.toolkits, second: here.toolkits["13"]}
    machine = Machine((replace(here, toolkits=toolkits, hosts={**here.hosts, second: here.hosts["13"]}),))
    with pytest.raises(UsageError, match="would have the same file name"):
        plan_of(file, machine)
    assert plan_of(file, machine, cuda=["13.0"]).cells


def test_a_file_named_like_a_fact_is_in_the_key(recipe: Recipe, machine: Machine) -> None:
    file = recipe(header="command")
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    (file.folder / "command").write_text("changed\n")
    assert "cp311-cu13.0-x86_64/host-build" in changed(
        before, plan_of(file, machine, cuda=["13"], python=["3.11"])
    )


def test_links_are_sources_and_count_by_what_they_lead_to(recipe: Recipe, machine: Machine) -> None:
    file = recipe()
    (file.folder / "linked").symlink_to("src")
    inside = file.folder / "src/more.h"
    inside.write_text("one")
    (file.folder / "also.h").symlink_to("src/more.h")
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    host = next(action for action in before.actions if action.kind == "build")
    members = ("also.h", "linked", "pyproject.toml", "src/core.cpp", "src/more.h")
    assert host.inputs["source"].members == members  # type: ignore[union-attr]
    inside.write_text("two")
    assert "cp311-cu13.0-x86_64/host-build" in changed(
        before, plan_of(file, machine, cuda=["13"], python=["3.11"])
    )


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("src/passwd.h", "/etc/passwd"),
        ("src/out.h", "../../outside.h"),
        ("src/gone.h", "../../nowhere.h"),
        ("src/self.h", "{folder}/src/core.cpp"),
        ("folder", ".."),
        ("src/chain.h", "../passwd"),
        ("kernels/more.cu", "../../outside.h"),
    ],
)
def test_no_link_leads_out_of_the_project(recipe: Recipe, machine: Machine, link: str, target: str) -> None:
    """What lies outside would be built, shipped, or printed by a test."""
    file = recipe()
    file.folder.with_name("outside.h").write_text("secret")
    if "passwd" in target:
        (file.folder / "passwd").symlink_to("/etc/passwd")
    (file.folder / link).symlink_to(target.format(folder=file.folder))
    with pytest.raises(UsageError, match="leads out of its folder, to "):
        plan_of(file, machine, cuda=["13"], python=["3.11"])


def test_a_virtual_environment_is_no_source_whatever_its_name(recipe: Recipe, machine: Machine) -> None:
    file = recipe()
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    bin_folder = file.folder / "my env" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to("/usr/bin/python3")
    (file.folder / "my env/pyvenv.cfg").write_text("home = /usr/bin\n")
    assert changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"])) == set()


def test_a_pipe_is_no_source(recipe: Recipe, machine: Machine) -> None:
    file = recipe()
    os.mkfifo(file.folder / "src/wait")
    with pytest.raises(UsageError, match=r"src/wait is a pipe, and sources are files and folders"):
        plan_of(file, machine, cuda=["13"], python=["3.11"])


def test_the_manifests_constraints_decide_on_the_environment_and_are_handed_to_the_fetch(
    recipe: Recipe, machine: Machine
) -> None:
    file = recipe(add='\n[build]\nconstraints = "exact.txt"\n', header="exact.txt")
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    (file.folder / "exact.txt").write_text("cmake==3.31.6\n")
    after = plan_of(file, machine, cuda=["13"], python=["3.11"])
    assert {"py3.11/requirements", "cp311-cu13.0-x86_64/host-build"} <= changed(before, after)
    fetch = next(action for action in after.actions if action.id == "py3.11/requirements")
    assert request_of(fetch)["constraints"] == "${in:constraints}"


def test_a_hook_sees_the_toolkit_and_the_variables_of_the_build(
    recipe: Recipe, machine: Machine, tmp_path: Path
) -> None:
    settings = (
        'config-settings = { "cmake.define.TK" = "{toolkit}" }\nenv = { FORCE_CUDA = "1", TK = "{toolkit}" }'
    )
    file = recipe(add=f"\n[build]\n{settings}\n")
    plan = plan_of(file, machine, cuda=["13"], python=["3.11"])
    found = {}
    for action in plan.actions:
        places = RunPaths(Path("/w"), Path("/o"), {name: Path("/i", name) for name in action.inputs})
        if text := write_request(action, places, tmp_path):
            found[action.id] = json.loads(text).get("config_settings")
    assert found["py3.11-cu13.0/hook"] == {"cmake.define.TK": "/i/toolkit"}
    assert found["cp311-cu13.0-x86_64/host-build"] == {"cmake.define.TK": "/w/cuda"}
    (hook,) = (action for action in plan.actions if action.id == "py3.11-cu13.0/hook")
    assert hook.env["CUDA_HOME"] == hook.env["TK"] == "${in:toolkit}"
    assert hook.env["PATH"].startswith("${in:toolkit}/bin:")
    assert hook.env["FORCE_CUDA"] == "1"


def test_a_hook_is_asked_once_for_each_toolkit(recipe: Recipe, machine: Machine) -> None:
    """What it answers may depend on the toolkit; what it is asked with does not."""
    ids = [action.id for action in plan_of(recipe(), machine).actions if action.id.startswith("py3.11")]
    assert ids[:2] == ["py3.11/requirements", "py3.11/hook-environment"]
    assert sorted(ids[2:]) == [
        f"py3.11-cu{cuda}/{name}"
        for cuda in ("12.4", "13.0")
        for name in ("backend-requirements", "carried", "environment", "hook")
    ]


def test_pip_constraints_are_in_the_key_and_passwords_are_not(
    recipe: Recipe, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = recipe()
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("cmake<4")
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:secret@example.org/simple")
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    constraints.write_text("cmake<5")
    assert "py3.11/requirements" in changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"]))
    assert "secret" not in str(keys(before.actions))


def test_a_new_auditwheel_repairs_again(
    recipe: Recipe, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recipe()
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    real = programs._version
    monkeypatch.setattr(programs, "_version", lambda name: "99" if name == "auditwheel" else real(name))
    assert changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"])) == {
        *(f"cp311-cu13.0-x86_64/{name}" for name in ("wheel", "audit", "test-requirements", "test")),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("program", programs.CODE)
def test_the_key_of_a_step_covers_all_the_code_that_it_imports(program: str) -> None:
    root = Path(programs.__file__).parent.parent
    seen: set[str] = set()
    step, _, provider = program.partition(" ")
    todo = [f"toolkits/providers/{provider}.py" if provider else f"steps/{step}.py"]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += imported(root, name)
    plumbing = {
        "__init__.py",
        "datafile.py",
        "errors.py",
        "diagnostics.py",
        "digest.py",
        "disk.py",
        "tree.py",
        "steps/entry.py",
    }
    plumbing |= {"plan/requests/request.py", "plan/requests/__init__.py", "plan/step_result.py"}
    plumbing |= {
        f"{folder}/__init__.py"
        for folder in (
            "binary",
            "cuda",
            "index",
            "manifest",
            "plan",
            "steps",
            "package",
            "toolchains",
            "toolkits",
        )
    }
    covered = programs.CODE[program]
    missing = {n for n in seen - plumbing if not any(n == c or n.startswith(f"{c}/") for c in covered)}
    assert missing == set()


def imported(root: Path, name: str) -> list[str]:
    """The files of gpuforge that one of its files imports when it runs."""
    found = []
    tree = ast.parse((root / name).read_text())
    blocks = (n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    for_types = {id(node) for block in blocks for statement in block.body for node in ast.walk(statement)}
    for node in (node for node in ast.walk(tree) if id(node) not in for_types):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gpuforge"):
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names if alias.name.startswith("gpuforge")]
        for module in modules:
            path = "/".join(module.split(".")[1:])
            found += [p for p in (f"{path}.py", f"{path}/__init__.py") if path and (root / p).is_file()]
    return found


def test_a_compiler_that_is_fetched_is_one_action_and_in_the_keys_of_what_it_compiles(
    recipe: Recipe, machine: Machine
) -> None:
    offer = debian_compilers.offered("g++", ">=11,<12", "x86_64")
    assert offer is not None
    gxx = offer.compiler
    (here,) = machine.locations
    file = recipe()
    cells = select(file, "x86_64", python=["3.11"]).cells

    def planned(host: Compiler) -> dict[str, Action]:
        at = replace(here, hosts=dict(here.hosts) | {"12": host})
        return {a.id: a for a in lower(file, cells, Machine((at,))).actions}

    actions = planned(gxx)
    fetch = actions["g++-11/compiler"]
    assert (fetch.title, fetch.cells) == (
        f"fetch g++ 11.3.0 from Debian bookworm ({gxx.size / 1e6:.0f} MB)",
        ("cp311-cu12.4-x86_64",),
    )
    host, other = actions["cp311-cu12.4-x86_64/host-build"], actions["cp311-cu13.0-x86_64/host-build"]
    assert host.inputs["host"] == ActionInput(fetch.id, "compiler")
    assert request_of(host)["compilers"] == {
        "g++": "${lay:host}/usr/bin/g++-11",
        "gcc": "${lay:host}/usr/bin/gcc-11",
    }
    assert "host" not in other.inputs
    kernel = next(a for a in actions.values() if a.kind == "compile" and a.id.startswith("cu12.4/"))
    assert "-ccbin=${in:host}/usr/bin/g++-11" in kernel.argv

    part = replace(gxx.parts[0], sha256="0" * 64)
    before, after = keys(actions.values()), keys(planned(replace(gxx, parts=(part, *gxx.parts[1:]))).values())
    changed = {name for name in before if before[name].digest != after[name].digest}
    assert {fetch.id, host.id, kernel.id} < changed
    assert other.id not in changed


def test_each_toolkit_is_fetched_from_its_provider_and_used_with_its_host_compiler(
    recipe: Recipe, machine: Machine
) -> None:
    gxx_11 = Compiler(
        "g++", Path("/usr/bin/g++-11"), Version("11.3.0"), "g++ 11.3.0", Path("/usr/bin/gcc-11")
    )
    toolkits = {
        cuda: select_toolkit("12.4", provider=provider, libraries=["cufft"], machine="x86_64")
        for cuda, provider in (("12", "debian"), ("13", "redist"))
    }
    (here,) = machine.locations
    machine = Machine((replace(here, toolkits=toolkits, hosts=dict(here.hosts) | {"12": gxx_11}),))
    file = recipe()
    actions = {a.id: a for a in lower(file, select(file, "x86_64", python=["3.11"]).cells, machine).actions}

    debian, redist = actions["cu12.4/toolkit"], actions["cu13.0/toolkit"]
    assert debian.title == f"fetch CUDA 12.4 from Debian trixie and PyPI ({toolkits['12'].size / 1e6:.0f} MB)"
    assert redist.title == "fetch CUDA 13.0 from NVIDIA's archives of 12.4.1"
    assert (debian.facts["provider"], redist.facts["provider"]) == ("debian", "redist")
    assert request_of(debian)["source"]["pins"]
    assert request_of(debian)["source"]["parts"]
    assert request_of(redist)["source"]["label"] == "12.4.1"
    compiler = FileInput(gxx_11.path, gxx_11.identity, program="compiler")
    assert actions["cp311-cu12.4-x86_64/host-build"].inputs["cxx"] == compiler
    specs = {
        cuda: request_of(action)
        for cuda, action in (
            ("12", actions["cp311-cu12.4-x86_64/wheel"]),
            ("13", actions["cp311-cu13.0-x86_64/wheel"]),
        )
    }
    assert specs["12"]["pins"]["nvidia-cufft-cu12"] == "11.2.1.3"
    assert (specs["12"]["pins_file"], specs["13"]["pins_file"]) == (None, "${in:toolkit}/packages.json")


def test_a_host_build_finds_all_that_lies_in_its_toolkit(recipe: Recipe, machine: Machine) -> None:
    """CMake's `find_library` looks for NCCL there, which FindCUDAToolkit does not know."""
    builds = {a.cells: a for a in plan_of(recipe(), machine).actions if a.kind == "build"}
    for build in builds.values():
        assert build.env["CMAKE_PREFIX_PATH"] == build.env["CUDAToolkit_ROOT"] == variables.TOOLKIT_SEEN
    (own,) = (
        action
        for action in plan_of(
            recipe(add='\n[build]\nenv = { CMAKE_PREFIX_PATH = "/opt" }\n'),
            machine,
            cuda=["13"],
            python=["3.11"],
        ).actions
        if action.kind == "build"
    )
    assert own.env["CMAKE_PREFIX_PATH"] == "/opt"
