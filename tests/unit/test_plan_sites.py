"""Building in images: which cell goes where, and what its actions then name."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import pytest
from plan_samples import ENVIRON, ONE_CELL, request_of

from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.cli.planning import reason_text
from gpuforge.errors import MissingError
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.action import Action, FileInput, ImageInput
from gpuforge.plan.cell import Choice, select
from gpuforge.plan.keys import keys
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.survey import resolve
from gpuforge.toolchains.inventory import Inventory

GXX = "g++ (Debian) {0}\nCopyright (C) Free Software Foundation, Inc.\n"
NVCC = "Cuda compilation tools, release 12.4, V12.4.131\nBuild cuda_12.4.r12.4/compiler.1\n"


def image(
    name: str,
    gxx: str,
    *pythons: str,
    nvcc: bool = False,
    glibc: str = "2.36",
    machine: str = "x86_64",
) -> ContainerImage:
    facts = {"implementation": "CPython", "abi": "cpython", "zlib": "1.3", "headers": True}
    paths = {p: f"/opt/python/cp{p.replace('.', '')}/bin/python3" for p in pythons}
    said = {
        "machine": machine,
        "glibc": glibc,
        "compilers": [
            ["/usr/bin/g++", GXX.format(gxx)],
            *([["/usr/local/cuda/bin/nvcc", NVCC]] if nvcc else []),
        ],
        "pythons": [[path, {**facts, "version": f"{p}.1", "executable": path}] for p, path in paths.items()],
        "toolkits": {"/usr/local/cuda": {}} if nvcc else {},
        "path": "/opt/tools/bin:/usr/bin:/bin",
    }
    return ContainerImage(f"sha256:{name}", name, Inventory.parse(name, json.dumps(said)))


OLD = image("old", "11.3.0", "3.11")
NEW = image("new", "14.2.0", "3.11", "3.13")  # too new a compiler for CUDA 12.4


def plan_in(file: ManifestFile, *images: ContainerImage, requested: tuple[str, ...] = ()) -> Plan:
    machine, chosen = resolve(file, select(file, "x86_64")._replace(requested=frozenset(requested)), images)
    return lower(file, chosen.cells, machine, ENVIRON)


def images_of(plan: Plan) -> dict[str, str | None]:
    return {action.id: action.image for action in plan.actions}


HERE = ("/links", "/provided", "/audit")  # they read the wheel and the index alone


def test_a_cell_is_built_in_the_first_image_that_has_all_it_needs(recipe):
    _, chosen = resolve(recipe(), select(recipe(), "x86_64"), [OLD, NEW])
    assert [c.id for c in chosen.cells] == [
        "cp311-cu12.4-x86_64",
        "cp311-cu13.0-x86_64",
        "cp313-cu13.0-x86_64",
    ]
    (left,) = chosen.left_out
    assert reason_text(left.reason) == (
        "no CPython 3.13 in image old; it has 3.11.1; "
        "image new: CUDA 12.4 takes g++ 6 to 13 as host compiler, not 14.2.0"
    )
    where = images_of(plan_in(recipe(), OLD, NEW))
    assert where["cp311-cu13.0-x86_64/host-build"] == "sha256:old"
    assert where["cp313-cu13.0-x86_64/host-build"] == "sha256:new"
    assert {where[n] for n in where if n.startswith("cp313") and not n.endswith(HERE)} == {"sha256:new"}
    assert {"py3.11-old/requirements", "py3.13-new/requirements"} < set(where)


def test_what_was_asked_for_and_no_image_has_is_an_error(recipe):
    with pytest.raises(MissingError, match=r"no CPython 3\.13 in image old") as caught:
        plan_in(recipe(), OLD, NEW, requested=("cuda", "python"))
    assert len(caught.value.diagnostics) == 2


def test_kernels_are_compiled_in_one_image_whatever_the_pythons_and_the_choice(recipe):
    file = recipe()
    whole = plan_in(file, OLD, NEW)
    machine, chosen = resolve(
        file,
        select(file, "x86_64", Choice(cell="cp313-cu13.0-x86_64")),
        [OLD, NEW],
    )
    single = lower(file, chosen.cells, machine)
    assert {i for name, i in images_of(whole).items() if "/kernels/" in name} == {"sha256:old"}
    found, alone = keys(whole.actions), keys(single.actions)
    assert {name: found[name].digest for name in alone} == {name: key.digest for name, key in alone.items()}


BOTH = """
[wheel]
machines = ["aarch64", "x86_64"]

[[objects]]
name = "ops-cpu"
role = "fallback"
kind = "library"
sources = ["mod/*.cpp"]
toolchain = "host"
abi = { version = "1", headers = ["mod/*.cpp"] }
"""
ARM = image("arm", "12.2.0", "3.11", "3.13", machine="aarch64")
INTEL = image("intel", "12.2.0", "3.11", "3.13")


def test_wheels_of_each_machine_type_are_built_in_images_of_that_type_and_share_the_kernels(recipe):
    file = recipe(add=BOTH)
    plan = plan_in(file, INTEL, ARM)
    actions = {action.id: action for action in plan.actions}
    where = images_of(plan)
    for cell in plan.cells:
        own = "sha256:arm" if cell.machine == "aarch64" else "sha256:intel"
        steps = ("host-build", "wheel", "test")
        assert {where[f"{cell.id}/{step}"] for step in steps} == {own}
    assert [cell.machine for cell in plan.cells] == ["x86_64"] * 4 + ["aarch64"] * 4
    # fatbins once, in the first image; what is code for CPUs in an image of the type
    assert {n for n in where if n.endswith("kernels/one.cu")} == {
        f"cu{cuda}/kernels/default-kernels/kernels/one.cu" for cuda in ("12.4", "13.0")
    }
    assert where["cu13.0/kernels/default-kernels"] == where["cu13.0/kernels/mechanisms"] == "sha256:intel"
    assert where["cu13.0/kernels/ops-cpu/library"] == "sha256:intel"
    assert where["cu13.0-aarch64/kernels/ops-cpu/library"] == "sha256:arm"
    toolkits = [actions[f"cu13.0{suffix}/toolkit"].facts["toolkit"] for suffix in ("", "-aarch64")]
    assert toolkits[0] != toolkits[1]


def test_kernels_are_the_same_for_one_machine_type_as_for_all(recipe):
    file = recipe(add=BOTH)
    machine, chosen = resolve(file, select(file, "x86_64", Choice(machine=["aarch64"])), [INTEL, ARM])
    whole, alone = (
        keys(plan.actions)
        for plan in (plan_in(file, INTEL, ARM), lower(file, chosen.cells, machine, ENVIRON))
    )
    assert {cell.machine for cell in chosen.cells} == {"aarch64"}
    assert {name: whole[name].digest for name in alone} == {name: k.digest for name, k in alone.items()}


def test_architectures_of_a_machine_type_are_those_of_its_wheels_and_of_their_audit(recipe):
    file = recipe(add=f'{BOTH}[cuda.13.aarch64]\narchs = ["90", "121"]\n')
    plan = plan_in(file, INTEL, ARM)
    actions = {action.id: action for action in plan.actions}
    compiled = "kernels/default-kernels/kernels/one.cu"
    assert "sm_90a" in actions[f"cu13.0/{compiled}"].title
    arm = actions[f"cu13.0-aarch64/{compiled}"]
    assert (arm.title.rpartition(" for ")[2], arm.image) == ("sm_90 sm_121", "sha256:intel")
    cubins = {
        cell.machine: _expected(actions[f"{cell.id}/audit"])["cubins"]
        for cell in plan.cells
        if cell.cuda == "13"
    }
    assert {machine: len(archs) for machine, archs in cubins.items()} == {"x86_64": 2, "aarch64": 2}
    assert cubins["x86_64"] != cubins["aarch64"]


def _expected(action: Action) -> Mapping[str, Any]:
    found: Mapping[str, Any] = request_of(action)["expectation"]
    return found


def test_wheels_of_a_machine_type_without_a_place_are_left_out_with_the_way_out(recipe):
    file = recipe(add=BOTH)
    _, chosen = resolve(file, select(file, "x86_64"), [INTEL])
    assert {cell.machine for cell in chosen.cells} == {"x86_64"}
    assert {item.cell.machine for item in chosen.missing} == {"aarch64"}
    facts = chosen.missing[0].reason.facts
    assert "image intel cannot build wheels for aarch64" in facts["problems"][0]
    assert "--runner docker" in facts["hints"][0]
    with pytest.raises(MissingError, match="cannot build wheels for aarch64"):
        resolve(file, select(file, "x86_64", Choice(machine=["aarch64"])), [INTEL])


def test_a_host_build_that_serves_every_image_runs_where_the_c_library_is_the_oldest(recipe):
    older = image("older", "11.3.0", "3.11", glibc="2.9")
    plan = plan_in(recipe(add="\n[build]\ncuda = false\n"), NEW, older)
    where = images_of(plan)
    assert {where["cp311-cu12.4-x86_64/test"], where["cp311-cu13.0-x86_64/test"]} == {
        "sha256:older",
        "sha256:new",
    }
    assert where["py3.11-older/host-build"] == "sha256:older"
    assert where["py3.13-new/host-build"] == "sha256:new"  # the only one with this Python


def test_programs_are_the_images_and_so_is_their_identity(recipe):
    plan = plan_in(recipe(), NEW)
    build = next(a for a in plan.actions if a.kind == "build")
    assert build.inputs["cxx"] == ImageInput(PurePosixPath("/usr/bin/g++"), "g++ (Debian) 14.2.0")
    itself = build.inputs["gpuforge"]
    assert isinstance(itself, ImageInput)
    assert itself.path == PurePosixPath("/opt/gpuforge/bin/python")
    by_id = {action.id: action for action in plan.actions}
    assert isinstance(by_id["cu13.0/toolkit"].inputs["gpuforge"], FileInput)  # a fetch of this machine
    before = keys(plan.actions)
    after = keys(plan_in(recipe(), ContainerImage("sha256:rebuilt", NEW.name, NEW.inventory)).actions)
    assert before["cu13.0/toolkit"].digest == after["cu13.0/toolkit"].digest
    assert all(before[name].digest != after[name].digest for name, a in by_id.items() if a.image)


def test_paths_are_the_images_and_nothing_of_the_users(recipe):
    actions = {a.id: a for a in plan_in(recipe(), NEW).actions}
    build, asks = actions["cp313-cu13.0-x86_64/host-build"], actions["py3.13-new/requirements"]
    assert build.env["PATH"] == "${work}/bin:${work}/cuda/bin:/opt/tools/bin:/usr/bin:/bin"
    assert asks.env["PATH"] == "/opt/tools/bin:/usr/bin:/bin"
    assert not {"PATH", "SSH_AUTH_SOCK"} & set(asks.passes)


def test_a_python_that_the_manifests_test_image_lacks_is_an_error(recipe):
    clean = image("clean", "12.2.0", "3.11")
    with_test = ContainerImage(NEW.id, NEW.name, NEW.inventory, clean)
    file = recipe(add='\n[test]\nimage = "clean"\n')
    with pytest.raises(MissingError) as caught:
        resolve(file, select(file, "x86_64", Choice(cuda=["13"], allow_missing=True)), [with_test])
    assert str(caught.value) == (
        f"{file.place('test', 'image')}: no CPython 3.13 in image clean; it has 3.11.1\n"
        '  hint: name an image that has it in [test] image, such as "python:3.13-slim", or choose others with --python'
    )
    selection = select(file, "x86_64", Choice(**ONE_CELL))
    machine, chosen = resolve(file, selection._replace(requested=frozenset(("cuda", "python"))), [with_test])
    assert [cell.id for cell in chosen.cells] == ["cp311-cu13.0-x86_64"]
    assert machine.tested_at(chosen.cells[0]).image == clean


def test_a_python_that_the_default_test_image_lacks_is_tested_where_it_is_built(recipe):
    clean = image("clean", "12.2.0", "3.11")
    with_test = ContainerImage(NEW.id, NEW.name, NEW.inventory, clean, spare=True)
    file = recipe()
    machine, chosen = resolve(
        file, select(file, "x86_64", Choice(cuda=["13"], allow_missing=True)), [with_test]
    )
    where = {cell.python: machine.tested_at(cell).image for cell in chosen.cells}
    assert where == {"3.11": clean, "3.13": with_test}
    plan = lower(file, chosen.cells, machine)
    assert images_of(plan)["cp313-cu13.0-x86_64/test"] == "sha256:new"
    (note,) = plan.notes
    assert note.startswith(
        "image clean has no CPython 3.13: these wheels are tested in new, where they are built; "
    )
    assert lower(file, chosen.cells, machine, test=False).notes == (
        "the wheels are not tested, as --no-test says",
    )


def test_only_fetches_reach_the_network_and_what_reads_no_image_runs_beside_it(recipe):
    actions = plan_in(recipe(), NEW).actions
    assert {a.kind for a in actions if a.network} == {"fetch"}
    assert {a.id for a in actions if a.image is None} == {
        "cu13.0/toolkit",
        *(f"{cell}-cu13.0-x86_64{step}" for cell in ("cp311", "cp313") for step in HERE),
    }


def test_an_images_own_toolkit_is_taken(recipe):
    file = recipe(("[cuda.12]\n", '[cuda.12]\nprovider = "image"\n'))
    with_cuda = image("cuda", "12.2.0", "3.11", "3.13", nvcc=True)
    plan = plan_in(file, with_cuda)
    builds = [a for a in plan.actions if a.kind == "build" and "cu12.4" in a.id]
    assert {a.inputs["toolkit"].path for a in builds} == {PurePosixPath("/usr/local/cuda")}  # type: ignore[union-attr]
    _, chosen = resolve(file, select(file, "x86_64"), [OLD])
    assert {reason_text(item.reason) for item in chosen.left_out if item.cell.cuda == "12"} == {
        "no CUDA 12.4 in image old; it has none"
    }
