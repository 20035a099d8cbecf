"""Toolchains by their names: gpuforge's own, plug-ins, and what is wrong with plug-ins."""

import pytest
from plug_in_samples import CODE, forget, install_plug_in

from gpuforge.errors import UsageError
from gpuforge.manifest import checks, forms
from gpuforge.toolchain_names import OWN, compiles_for
from gpuforge.toolchains import registry


def test_what_says_what_a_toolchain_compiles_for_is_what_it_has():
    """The names stand where manifests are read, which load no toolchain."""
    for each in registry.toolchains():
        assert (compiles_for(each.name) == "targets") == (each.packaged is not None)
    assert compiles_for("opencl") == "devices"
    assert compiles_for("plugged") == "targets"


def test_what_a_toolchain_makes_on_users_machines_is_what_it_has():
    """In a set of modules, a compiler of libraries may compile the part for CPUs."""
    for name, own in OWN.items():
        each = registry.toolchain(name)
        makes_libraries = each.library is not None or each.by_command
        assert ("library" in own.makes) == makes_libraries, name
        assert "module" in own.makes if each.module else "module" not in own.makes or makes_libraries, name


@pytest.mark.parametrize(
    ("compiler", "refused"),
    [("plugged", 0), ("halide", 0), ("iree", 0), ("opencl", 0), ("nvcc", 1), ("nvrtc", 1), ("g++", 0)],
)
def test_no_architectures_are_needed_beside_some_toolchains(compiler, refused):
    data = {
        "cuda": {"13": {"archs": []}},
        "toolchains": {"device": {"compiler": compiler}},
        "objects": [{"name": "k", "role": "fallback", "toolchain": "device"}],
    }
    assert len([*checks.architectures(data)]) == refused


def test_a_plug_in_is_found_beside_gpuforges_own(tmp_path):
    with install_plug_in(tmp_path):
        assert registry.names() == (*OWN, "plugged")
        assert registry.toolchain("plugged").uses == {"fallback library"}
        assert forms.compiler_name("plugged") == "plugged"
    assert registry.names() == tuple(OWN)


def test_every_file_of_a_plug_in_is_in_its_identity(tmp_path):
    with install_plug_in(tmp_path) as folder:
        before = registry.identity("plugged")
        assert before.startswith("plugged_toolchain 1.0 ")
        (folder / "programs" / "make.py").write_text("print()")
        forget()
        assert registry.identity("plugged") != before


def test_gpuforges_own_names_cannot_be_taken(tmp_path):
    own = registry.toolchain("g++")
    with install_plug_in(tmp_path, name="g++", code=CODE.replace('"plugged"', '"g++"')):
        assert registry.toolchain("g++") == own
        assert registry.identity("g++").startswith("gpuforge ")


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (
            "raise RuntimeError('no licence')",
            "the toolchain 'plugged' cannot be loaded from plugged_toolchain:TOOLCHAIN: RuntimeError: no licence",
            "correct or uninstall plugged_toolchain 1.0",
        ),
        (
            "TOOLCHAIN = 3",
            "the toolchain 'plugged': plugged_toolchain:TOOLCHAIN is not a Toolchain of that name",
            "correct or uninstall plugged_toolchain 1.0; docs/toolchains.md describes plug-ins",
        ),
        (
            CODE.replace('name="plugged"', 'name="other"'),
            "the toolchain 'plugged': plugged_toolchain:TOOLCHAIN is not a Toolchain of that name",
            "correct or uninstall plugged_toolchain 1.0; docs/toolchains.md describes plug-ins",
        ),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_named(code, message, hint, tmp_path):
    with install_plug_in(tmp_path, code=code), pytest.raises(UsageError) as caught:
        registry.toolchain("plugged")
    (problem,) = caught.value.diagnostics
    assert (problem.message, problem.hint) == (message, hint)


def test_two_plug_ins_of_one_name_are_named(tmp_path):
    with (
        install_plug_in(tmp_path / "a", package="first"),
        install_plug_in(tmp_path / "b", package="second"),
        pytest.raises(UsageError) as caught,
    ):
        registry.toolchain("plugged")
    (problem,) = caught.value.diagnostics
    assert problem.message == "two plug-ins are called 'plugged': those of first 1.0 and second 1.0"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UsageError) as caught:
        registry.toolchain("gcc")
    (problem,) = caught.value.diagnostics
    assert (problem.message, problem.hint) == (
        "unknown compiler 'gcc'",
        f"known: {', '.join(OWN)}",
    )
