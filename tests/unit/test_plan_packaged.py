"""Fallbacks by a compiler from a package: one action for each source and target, whose keys have the plug-in's code."""

import pytest
from plan_samples import PLUGGED, changed, plan_of, problems, request_of, with_plug
from plug_in_samples import CODE, forget, install_plug_in

ID = "cu13.0/kernels/filters"


def test_each_source_is_compiled_for_each_target_and_linked_once(recipe, machine, tmp_path):
    with install_plug_in(tmp_path / "site"):
        actions = {a.id: a for a in plan_of(with_plug(recipe), machine, cuda=["13"]).actions}
    assert [name for name in actions if name.startswith(ID)] == [
        f"{ID}/kernels/blur.plug-cpu",
        f"{ID}/kernels/sharpen.plug-cpu",
        f"{ID}/library-cpu",
        ID,
    ]
    request = request_of(actions[f"{ID}/kernels/blur.plug-cpu"])
    assert request["argv"] == ["{python}", "{programs}/make.py", "{source}", "-fast", "{output}"]
    assert (request["source"], request["output"]) == ("kernels/blur.plug", "made.o")
    assert {"programs", "sources"} == {*actions[f"{ID}/kernels/blur.plug-cpu"].staged}
    assert not actions[f"{ID}/kernels/blur.plug-cpu"].network
    (fetch,) = (request_of(a) for name, a in actions.items() if name.endswith("/outside-packages"))
    assert fetch["requires"] == ["plugged-compiler>=2,<3"]


def test_a_changed_plug_in_changes_the_keys_of_what_it_makes_and_of_nothing_else(recipe, machine, tmp_path):
    with install_plug_in(tmp_path / "site") as folder:
        file = with_plug(recipe)
        before = plan_of(file, machine, cuda=["13"])
        (folder / "__init__.py").write_text(CODE + "# another version\n")
        forget()
        touched = changed(before, plan_of(file, machine, cuda=["13"]))
    assert {
        f"{ID}/kernels/blur.plug-cpu",
        f"{ID}/kernels/sharpen.plug-cpu",
        f"{ID}/library-cpu",
        ID,
    } <= touched
    assert not any("host-build" in name or name.endswith(("-packages", "-environment")) for name in touched)
    assert not any(name.startswith("cu13.0/kernels/default-kernels") for name in touched)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'flags = ["-fast"]',
            'targets = ["gpu"]',
            "[toolchains.outside] targets: 'gpu' is not one of cpu",
        ),
        (
            'kind = "library"\nsources',
            "sources",
            "object 'filters': plugged cannot make a module",
        ),
        (
            '["kernels/*.plug"]\ntoolchain',
            '["kernels/*.plug", "kernels/saxpy.cu"]\ntoolchain',
            "object 'filters': plugged does not compile kernels/saxpy.cu",
        ),
        (
            'toolchain = "outside"',
            'toolchain = "outside"\ncpu = ["x86-64"]',
            "object 'filters' has `cpu`, but plugged has `targets`",
        ),
    ],
)
def test_what_its_compiler_cannot_do_is_refused_with_its_place(old, new, message, recipe, machine, tmp_path):
    text = PLUGGED.replace(old, new)
    if "module" in message:  # which has no ABI
        text = text.partition("abi = {")[0]
    with install_plug_in(tmp_path / "site"):
        (problem,) = problems(with_plug(recipe, add=text), machine, cuda=["13"])
    assert problem.message == message


def test_targets_of_a_compiler_without_them_are_refused(recipe, machine):
    file = recipe(('compiler = "nvcc"', 'compiler = "nvcc"\ntargets = ["sm_90"]'))
    (problem,) = problems(file, machine)
    assert problem.message == "[toolchains.device] targets: nvcc takes none"
