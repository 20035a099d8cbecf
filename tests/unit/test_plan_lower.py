"""From cells to actions: what is shared, what depends on what, and what a request says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from plan_samples import ONE_CELL, changed, plan_of, request_of

from gpuforge.actions.cell_actions import lower
from gpuforge.actions.environment import MakeEnvironment
from gpuforge.cli.dist import BuiltWheel, keep_current
from gpuforge.cuda.targets import targets
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan import variables
from gpuforge.plan.action import Action, ActionInput, FileInput
from gpuforge.plan.cell import Choice, select
from gpuforge.plan.keys import keys
from gpuforge.plan.site import Machine
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits import compilers
from gpuforge.toolkits.select import select as select_toolkit


def test_kernels_are_compiled_once_per_toolkit_whatever_the_pythons(recipe, machine):
    plan = plan_of(recipe(), machine)
    kinds = [action.kind for action in plan.actions]
    assert kinds.count("compile") == 2 * 2  # sources by toolkits
    assert kinds.count("build") == 2 * 2  # Pythons by toolkits
    assert kinds.count("audit") == len(plan.cells) == 4
    compiled = next(
        action for action in plan.actions if action.id == "cu13.0/kernels/default-kernels/kernels/one.cu"
    )
    assert compiled.cells == ("cp311-cu13.0-x86_64", "cp313-cu13.0-x86_64")


def test_a_host_build_without_cuda_is_done_once_per_python(recipe, machine):
    without = machine._replace(host_cuda=False)
    plan = plan_of(recipe(add="\n[build]\ncuda = false\n"), without)
    builds = {action.id: action for action in plan.actions if action.kind == "build"}
    assert list(builds) == ["py3.11/host-build", "py3.13/host-build"]
    build = builds["py3.11/host-build"]
    assert build.cells == ("cp311-cu12.4-x86_64", "cp311-cu13.0-x86_64")
    assert "toolkit" not in build.inputs
    assert "CUDA" not in "".join([*build.env, *build.env.values(), *build.argv, str(build.step)])
    wheels = [action for action in plan.actions if action.id.endswith("/wheel")]
    assert {action.inputs["wheel"].action for action in wheels} == set(builds)  # type: ignore[union-attr]
    alone = plan_of(recipe(add="\n[build]\ncuda = false\n"), without, cuda=["13"])
    assert {k: v.digest for k, v in keys(alone.actions).items()}.items() <= {
        k: v.digest for k, v in keys(plan.actions).items()
    }.items()


def test_an_input_has_links_that_lead_out_if_the_action_that_makes_it_has(recipe, machine):
    actions = {action.id: action for action in plan_of(recipe(), machine).actions}
    inputs = [each for action in actions.values() for each in action.inputs.values()]
    made = {each for each in inputs if isinstance(each, ActionInput)}
    assert {each for each in made if each.links_out} == {
        each for each in made if actions[each.action].links_out
    }
    assert {each.output for each in made if each.links_out} == {"environment"}


def test_only_fetches_reach_the_network(recipe, machine):
    plan = plan_of(recipe(), machine)
    assert {action.kind for action in plan.actions if action.network} == {"fetch"}
    assert all(action.network for action in plan.actions if action.kind == "fetch")
    of_store = [action for action in plan.actions if action.passes == (variables.FILES,)]
    assert {type(action.step) for action in of_store} == {MakeEnvironment}
    others = [action for action in plan.actions if action.passes and action not in of_store]
    assert {action.kind for action in others} == {"fetch", "build"}


def test_in_host_build_keeps_object_sources_in_the_tree(recipe, machine):
    def tree(file: ManifestFile) -> tuple[str, ...] | None:
        plan = plan_of(file, machine)
        host = next(action for action in plan.actions if action.kind == "build")
        return host.inputs["source"].members  # type: ignore[union-attr]

    assert tree(recipe()) == ("pyproject.toml", "src/core.cpp")
    kept = recipe(('sources = ["mod/*.cpp"]', 'sources = ["mod/*.cpp"]\nin-host-build = true'))
    assert tree(kept) == ("mod/a.cpp", "pyproject.toml", "src/core.cpp")


def test_a_variant_is_made_of_the_proved_wheel(recipe, machine):
    file = recipe(add='\n[wheel]\nnaming = ["suffix", "variant"]\n')
    plan = plan_of(file, machine, **ONE_CELL)
    cell = "cp311-cu13.0-x86_64-variant"
    made = next(action for action in plan.actions if action.id == f"{cell}/variant")
    assert made.needs == (f"{cell}/audit", f"{cell}/wheel")
    gpus = ("80_real", "90a_real", "90_real", "120_virtual")
    assert request_of(made) == {
        "wheel": "input",
        "report": "input",
        "cuda": "13.0",
        "gpus": list(gpus),
        "axes": [],
    }
    assert plan.wheels[cell].action == f"{cell}/variant"
    (test,) = (action for action in plan.actions if action.id == f"{cell}/test")
    assert test.needs == (f"{cell}/test-requirements", f"{cell}/wheel")
    assert plan.wheels["cp311-cu13.0-x86_64-suffix"].action == "cp311-cu13.0-x86_64-suffix/wheel"
    named = {a.id: request_of(a)["naming"] for a in plan.actions if a.id.endswith("/wheel")}
    assert named == {f"{cell}/wheel": "plain", "cp311-cu13.0-x86_64-suffix/wheel": "suffix"}


def test_the_linkage_decides_on_cudart_and_is_in_the_record(recipe, machine):
    plans = {
        linkage: plan_of(recipe(("[cuda]\n", f'[cuda]\nlinkage = "{linkage}"\n')), machine, **ONE_CELL)
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
    host = {"family": "g++", "version": "12.2.0"}
    assert record["linkage"] == "bundle"
    assert record["toolchains"] == {
        "host": host,
        "device": {"family": "nvcc", "version": "13.0.88", "host": host},
    }
    assert record["toolkit"]["packages"]["nvidia-cuda-runtime"] == "13.0.96"
    assert str(recipe().folder.parent) not in json.dumps(record)


def test_architectures_as_the_build_systems_write_them():
    several = targets(("80", "90a", "90+ptx", "120"), "120")
    assert (
        variables.cmake_architectures(several) == "80-real;90a-real;90-real;120-real;90-virtual;120-virtual"
    )
    assert variables.torch_architectures(several) == "8.0;9.0a;9.0;12.0;9.0+PTX;12.0+PTX"
    assert variables.cmake_architectures(targets(["75"])) == "75-real"


@pytest.mark.thorough
def test_argv_has_no_path_of_this_machine(recipe, machine):
    def paths(action: Action) -> list[str]:
        words = (*action.argv, *([action.step.text()] if action.step else []))
        return [word for word in words if str(recipe().folder) in word or "/usr/bin/g++" in word]

    assert [paths(action) for action in plan_of(recipe(), machine).actions if paths(action)] == []


def test_a_virtual_environment_is_no_source_whatever_its_name(recipe, machine):
    file = recipe()
    before = plan_of(file, machine, **ONE_CELL)
    bin_folder = file.folder / "my env" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to("/usr/bin/python3")
    (file.folder / "my env/pyvenv.cfg").write_text("home = /usr/bin\n")
    assert changed(before, plan_of(file, machine, **ONE_CELL)) == set()


@pytest.mark.parametrize("folder", [".", "out", "src/demo"])
def test_what_a_build_leaves_in_its_output_folder_is_no_source_wherever_that_is(recipe, machine, folder):
    file = recipe()
    before = plan_of(file, machine, **ONE_CELL)
    dist = file.folder / folder
    for name in (".failed/host-build", ".set-aside"):
        (dist / name).mkdir(parents=True)
        (dist / name / "demo-1-py3-none-any.whl").touch()
    wheel = BuiltWheel("cell", dist / "demo-1-py3-none-any.whl", "", 0, {})
    wheel.path.touch()
    keep_current(dist, "demo", [wheel], [])
    assert changed(before, plan_of(file, machine, **ONE_CELL)) == set()
    (dist / "other-1-py3-none-any.whl").touch()  # the project's own
    assert changed(before, plan_of(file, machine, **ONE_CELL))


def test_the_manifests_constraints_decide_on_the_environment_and_are_handed_to_the_fetch(recipe, machine):
    file = recipe(add='\n[build]\nconstraints = "exact.txt"\n', header="exact.txt")
    before = plan_of(file, machine, **ONE_CELL)
    (file.folder / "exact.txt").write_text("cmake==3.31.6\n")
    after = plan_of(file, machine, **ONE_CELL)
    assert {"py3.11/requirements", "cp311-cu13.0-x86_64/host-build"} <= changed(before, after)
    fetch = next(action for action in after.actions if action.id == "py3.11/requirements")
    assert fetch.inputs["constraints"].path == file.folder / "exact.txt"  # type: ignore[union-attr]


def test_a_hook_sees_the_toolkit_and_the_variables_of_the_build(recipe, machine, tmp_path):
    settings = (
        'config-settings = { "cmake.define.TK" = "{toolkit}" }\nenv = { FORCE_CUDA = "1", TK = "{toolkit}" }'
    )
    file = recipe(add=f"\n[build]\n{settings}\n")
    plan = plan_of(file, machine, **ONE_CELL)
    found = {a.id: request_of(a) for a in plan.actions if a.step and "config_settings" in vars(a.step)}
    assert {name.rpartition("/")[2] for name in found} == {"hook", "host-build"}
    assert {str(each["config_settings"]) for each in found.values()} == {"{'cmake.define.TK': '{toolkit}'}"}
    assert {each["toolkit"] for each in found.values()} == {"input"}
    (hook,) = (action for action in plan.actions if action.id == "py3.11-cu13.0/hook")
    assert hook.env["CUDA_HOME"] == hook.env["TK"] == "${in:toolkit}"
    assert hook.env["PATH"].startswith("${in:toolkit}/bin:")
    assert hook.env["FORCE_CUDA"] == "1"


def test_a_hook_is_asked_once_for_each_toolkit(recipe, machine):
    """What it answers may depend on the toolkit; what it is asked with does not."""
    ids = [action.id for action in plan_of(recipe(), machine).actions if action.id.startswith("py3.11")]
    assert ids[:2] == ["py3.11/requirements", "py3.11/hook-environment"]
    assert sorted(ids[2:]) == [
        f"py3.11-cu{cuda}/{name}"
        for cuda in ("12.4", "13.0")
        for name in ("backend-requirements", "carried", "environment", "hook")
    ]


def test_a_compiler_that_is_fetched_is_one_action_and_in_the_keys_of_what_it_compiles(recipe, machine):
    offer = compilers.offered("g++", ">=11,<12", "x86_64")
    assert offer is not None
    gxx = offer.compiler
    (here,) = machine.locations
    file = recipe()
    cells = select(file, "x86_64", Choice(python=["3.11"])).cells

    def planned(host: Compiler) -> dict[str, Action]:
        at = here._replace(hosts=dict(here.hosts) | {"12": host})
        return {a.id: a for a in lower(file, cells, Machine((at,))).actions}

    actions = planned(gxx)
    fetch = actions["g++-11/compiler"]
    assert (fetch.title, fetch.cells) == (
        f"fetch g++ 11.3.0 from Debian bookworm ({gxx.size / 1e6:.0f} MB)",
        ("cp311-cu12.4-x86_64",),
    )
    host, other = actions["cp311-cu12.4-x86_64/host-build"], actions["cp311-cu13.0-x86_64/host-build"]
    assert host.inputs["host"] == ActionInput(fetch.id, "compiler", links_out=True)
    assert "host" in host.laid
    assert request_of(host)["programs"] == {"cxx": "usr/bin/g++-11", "cc": "usr/bin/gcc-11"}
    assert request_of(host)["names"] == {"cxx": "g++", "cc": "gcc"}
    assert "host" not in other.inputs
    kernel = next(a for a in actions.values() if a.kind == "compile" and a.id.startswith("cu12.4/"))
    assert "-ccbin=${in:host}/usr/bin/g++-11" in kernel.argv

    part = replace(gxx.parts[0], sha256="0" * 64)
    before, after = keys(actions.values()), keys(planned(replace(gxx, parts=(part, *gxx.parts[1:]))).values())
    changed = {name for name in before if before[name].digest != after[name].digest}
    assert {fetch.id, host.id, kernel.id} < changed
    assert other.id not in changed


def test_each_toolkit_is_fetched_from_its_provider_and_used_with_its_host_compiler(recipe, machine):
    gxx_11 = Compiler(
        "g++", Path("/usr/bin/g++-11"), Version("11.3.0"), "g++ 11.3.0", Path("/usr/bin/gcc-11")
    )
    toolkits = {
        cuda: select_toolkit("12.4", provider=provider, libraries=["cufft"], machine="x86_64")
        for cuda, provider in (("12", "debian"), ("13", "redist"))
    }
    (here,) = machine.locations
    machine = Machine((here._replace(toolkits=toolkits, hosts=dict(here.hosts) | {"12": gxx_11}),))
    file = recipe()
    actions = {
        a.id: a for a in lower(file, select(file, "x86_64", Choice(python=["3.11"])).cells, machine).actions
    }

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
    assert (specs["12"]["pins_file"], specs["13"]["pins_file"]) == ("", "packages.json")


def test_a_host_build_finds_all_that_lies_in_its_toolkit(recipe, machine):
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


def action(name: str, *needs: str, **more: Any) -> Action:
    inputs = {need: ActionInput(need, "out") for need in needs}
    return Action(name, more.pop("kind", "build"), name, ("true",), inputs=inputs, outputs=("out",), **more)


def test_siblings_share_a_directory_on_this_machine_and_a_cache_in_containers():
    here = action("build", place="host-build")
    plan = [here, replace(here, id="contained", image="sha256:0"), action("other")]
    assert [each.turns for each in plan] == ["one at a time", "first alone", "together"]
