"""From cells to actions: what is shared, what depends on what, and what is in a key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan import environment
from gpuforge.plan.action import Action, FileInput
from gpuforge.plan.cell import select
from gpuforge.plan.keys import keys
from gpuforge.plan.lower import Plan, lower
from gpuforge.plan.machine import Machine, unfit_compilers
from gpuforge.toolchains.model import Compiler
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
        action for action in plan.actions if action.id == "cu13.0/kernels/default-kernels/kernels-one.cu"
    )
    assert compiled.cells == ("cp311-cu13.0-x86_64", "cp313-cu13.0-x86_64")


def test_only_fetches_reach_the_network(recipe: Recipe, machine: Machine) -> None:
    plan = plan_of(recipe(), machine)
    assert {action.kind for action in plan.actions if action.network} == {"fetch"}
    assert all(action.network for action in plan.actions if action.kind == "fetch")
    assert {action.kind for action in plan.actions if action.passes} == {"fetch"}


def test_a_kernel_source_touches_only_its_toolkits_kernels_and_wheels(
    recipe: Recipe, machine: Machine
) -> None:
    file = recipe()
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    (file.folder / "kernels/one.cu").write_text("// changed\n")
    assert changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"])) == {
        "cu13.0/kernels/default-kernels/kernels-one.cu",
        "cu13.0/kernels/default-kernels/kernels-two.cu",  # it may include the other
        "cu13.0/kernels/default-kernels",
        "cp311-cu13.0-x86_64/wheel",
        "cp311-cu13.0-x86_64/audit",
    }


def test_a_host_source_leaves_kernels_alone(recipe: Recipe, machine: Machine) -> None:
    file = recipe()
    before = plan_of(file, machine, cuda=["13"], python=["3.11"])
    (file.folder / "src/core.cpp").write_text("int main() { return 1; }\n")
    assert changed(before, plan_of(file, machine, cuda=["13"], python=["3.11"])) == {
        f"cp311-cu13.0-x86_64/{name}" for name in ("host-build", "wheel", "audit")
    }


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
    from gpuforge.manifest.load import load

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


def test_what_cannot_be_built_yet_is_refused_all_at_once(recipe: Recipe, machine: Machine) -> None:
    file = recipe(
        ("[cuda]\n", '[cuda]\nlinkage = "static"\n'),
        ('toolchain = "device"', 'toolchain = "host"\nkind = "library"'),
        add='\n[wheel]\nnaming = ["variant"]\n',
    )
    with pytest.raises(UsageError) as caught:
        plan_of(file, machine)
    assert [d.message for d in caught.value.diagnostics] == [
        'linkage = "static" cannot be built yet',
        'naming "variant" cannot be built yet',
        "object 'default-kernels': kind = \"library\" cannot be built yet",
        "object 'default-kernels': modules are compiled by nvcc only, so far",
    ]
    assert all(d.place and d.place.line and d.hint for d in caught.value.diagnostics)


def test_architectures_as_the_build_systems_write_them() -> None:
    archs = ("80", "90a", "90+ptx", "120")
    assert (
        environment.cmake_architectures(archs, "120")
        == "80-real;90a-real;90-real;120-real;90-virtual;120-virtual"
    )
    assert environment.torch_architectures(archs, "120") == "8.0;9.0a;9.0;12.0;9.0+PTX;12.0+PTX"
    assert environment.cmake_architectures(("75",), None) == "75-real"


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


def test_argv_has_no_path_of_this_machine(recipe: Recipe, machine: Machine) -> None:
    def paths(action: Action) -> list[str]:
        return [word for word in action.argv if str(recipe().folder) in word or "/usr/bin/g++" in word]

    assert [paths(action) for action in plan_of(recipe(), machine).actions if paths(action)] == []


def test_the_toolkit_decides_on_nvcc(recipe: Recipe, machine: Machine) -> None:
    file = recipe(('compiler = "nvcc"', 'compiler = "nvcc"\npath = "/opt/nvcc"'))
    with pytest.raises(UsageError, match="nvcc is always the one of the toolkit"):
        plan_of(file, machine)


def test_an_nvcc_outside_the_declared_range_is_refused(recipe: Recipe, machine: Machine) -> None:
    file = recipe(('compiler = "nvcc"', 'compiler = "nvcc"\nversion = "<13"'))
    (problem,) = unfit_compilers(file, "13", machine.toolkits["13"])
    assert problem.message == "[cuda.13] has nvcc 13.0.88, which is not <13"
    assert problem.place
    assert problem.place.line == 12
    assert not list(unfit_compilers(recipe(), "13", machine.toolkits["13"]))


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
    machine = replace(machine, toolkits=toolkits, hosts=dict(machine.hosts) | {"12": gxx_11})
    file = recipe()
    actions = {a.id: a for a in lower(file, select(file, "x86_64", python=["3.11"]).cells, machine).actions}

    debian, redist = actions["cu12.4/toolkit"], actions["cu13.0/toolkit"]
    assert debian.title == f"fetch CUDA 12.4 from Debian trixie and PyPI ({toolkits['12'].size / 1e6:.0f} MB)"
    assert redist.title == "fetch CUDA 13.0 from NVIDIA's archives of 12.4.1"
    assert (debian.facts["provider"], redist.facts["provider"]) == ("debian", "redist")
    assert {"--pins", "--parts"} < set(debian.argv)
    assert "--archives" in redist.argv
    assert actions["cp311-cu12.4-x86_64/host-build"].inputs["cxx"] == FileInput(gxx_11.path, gxx_11.identity)
    specs = {
        cuda: json.loads(action.argv[action.argv.index("--spec") + 1])
        for cuda, action in (
            ("12", actions["cp311-cu12.4-x86_64/wheel"]),
            ("13", actions["cp311-cu13.0-x86_64/wheel"]),
        )
    }
    assert specs["12"]["pins"]["nvidia-cufft-cu12"] == "11.2.1.3"
    assert (specs["12"]["pins_file"], specs["13"]["pins_file"]) == (None, "${in:toolkit}/packages.json")
