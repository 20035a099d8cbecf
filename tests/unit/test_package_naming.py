from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from gpuforge.errors import ActionError, UsageError
from gpuforge.package import naming
from gpuforge.wheel.filename import WheelName

NAME = "My_Solver-2.5.1-cp311-cp311-linux_x86_64.whl"


def unpacked(root: Path, name: str = "My.Solver", version: str = "2.5.1") -> Path:
    info = root / "My_Solver-2.5.1.dist-info"
    info.mkdir()
    (root / "My_Solver-2.5.1.data" / "scripts").mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: my-solver[fast]; extra == 'all'\n"
        f"Requires-Dist: my-solver-tools\n\nName: not this one\n"
    )
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: x 1\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n"
    )
    return root


@pytest.mark.parametrize(
    ("strategy", "cuda", "file", "dist_info", "name", "version"),
    [
        (
            "suffix",
            "13.0",
            "my_solver_cu13-2.5.1-cp311-cp311-linux_x86_64.whl",
            "my_solver_cu13-2.5.1",
            "My.Solver-cu13",
            "2.5.1",
        ),
        (
            "local",
            "12.4",
            "My_Solver-2.5.1+cu12-cp311-cp311-linux_x86_64.whl",
            "My_Solver-2.5.1+cu12",
            "My.Solver",
            "2.5.1+cu12",
        ),
        ("plain", "13.0", NAME, "My_Solver-2.5.1", "My.Solver", "2.5.1"),
    ],
)
def test_each_strategy_renames_file_folders_and_metadata(
    tmp_path, strategy, cuda, file, dist_info, name, version
):
    new = naming.rename(unpacked(tmp_path), WheelName.parse(NAME), strategy, cuda)
    assert str(new) == file
    parsed = parse_wheel_filename(file)
    assert (parsed[0], str(parsed[1])) == (name.lower().replace(".", "-"), version)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{dist_info}.data", f"{dist_info}.dist-info"]
    own = name if strategy == "suffix" else "my-solver"
    assert (tmp_path / f"{dist_info}.dist-info" / "METADATA").read_text() == (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: {own}[fast]; extra == 'all'\n"
        f"Requires-Dist: my-solver-tools\n\nName: not this one\n"
    )


def test_a_local_version_that_is_there_is_extended_once(tmp_path):
    tree = unpacked(tmp_path, version="2.5.1+mpi")
    once = naming.rename(tree, WheelName.parse(NAME), "local", "13.0")
    again = naming.rename(tree, once, "local", "13.0")
    assert once.version == again.version == "2.5.1+mpi.cu13"


@pytest.mark.parametrize(
    ("label", "local"),
    [
        ("cu13.torch2.11", "cu13.torch2.11"),
        ("cu130torch2.11", "cu130torch2.11"),
        ("cu13.torch2.11+cu126.blasMKL_64", "cu13.torch2.11.cu126.blasmkl.64"),
        ("cu13.torch2.1.torch2.11", "cu13.torch2.1.torch2.11"),
    ],
)
def test_a_label_is_in_a_local_version_once(tmp_path, label, local):
    tree = unpacked(tmp_path)
    new = naming.rename(tree, WheelName.parse(NAME), "local", "13.0", label=label)
    assert new.version.partition("+")[2] == str(parse_wheel_filename(str(new))[1].local) == local
    assert naming.rename(tree, new, "local", "13.0", label=label) == new


@pytest.mark.parametrize(
    ("strategy", "archs", "version", "expected"),
    [
        ("suffix", ["90"], "2.5.1", "my_solver_cu13-2.5.1+try.sm90"),
        ("plain", ["80", "90a"], "2.5.1rc1", "My_Solver-2.5.1rc1+try.sm80.sm90a"),
        ("local", ["90"], "1!2.5.1+mpi", "My_Solver-1!2.5.1+mpi.cu13.try.sm90"),
    ],
)
def test_a_wheel_for_a_quick_try_has_a_version_that_pypi_refuses(
    tmp_path, strategy, archs, version, expected
):
    tree = unpacked(tmp_path, version=version)
    new = naming.rename(tree, WheelName.parse(NAME), strategy, "13.0", narrowed=archs)
    assert f"{new.distribution}-{new.version}" == expected
    assert parse_wheel_filename(str(new))[
        1
    ].local  # https://packaging.python.org/specifications/version-specifiers/
    (info,) = tree.glob("*.dist-info")
    assert info.name == f"{expected}.dist-info"
    assert f"\nVersion: {new.version}\n" in (info / "METADATA").read_text()
    assert naming.rename(tree, new, strategy, "13.0", narrowed=archs) == new


def test_a_project_named_for_this_cuda_keeps_its_name_and_for_another_is_refused(tmp_path):
    tree = unpacked(tmp_path, name="My.Solver-CU13")
    assert naming.rename(tree, WheelName.parse(NAME), "suffix", "13.0").distribution == "my_solver_cu13"
    with pytest.raises(UsageError) as caught:
        naming.rename(tree, WheelName.parse(NAME), "suffix", "12.4")
    assert str(caught.value) == (
        "My.Solver-CU13 is named for CU13 already, and this wheel is for cu12\n"
        '  hint: give the project a name without a CUDA suffix, or set [wheel] naming = ["plain"]'
    )


def test_a_wheel_is_not_renamed_to_a_variant(tmp_path):
    with pytest.raises(UsageError) as caught:
        naming.rename(unpacked(tmp_path), WheelName.parse(NAME), "variant", "13.0")
    assert str(caught.value) == (
        "a wheel cannot be renamed by the strategy 'variant'\n  hint: choose one of suffix, local, plain"
    )


def test_the_file_wheel_gets_the_tags_of_the_file_name(tmp_path):
    name = WheelName.parse("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    naming.write_tags(unpacked(tmp_path), name)
    assert (tmp_path / "My_Solver-2.5.1.dist-info" / "WHEEL").read_text() == (
        "Wheel-Version: 1.0\nGenerator: x 1\nRoot-Is-Purelib: false\n"
        "Tag: cp311-cp311-manylinux2014_x86_64\nTag: cp311-cp311-manylinux_2_17_x86_64\n"
    )


@pytest.mark.parametrize(
    ("file_tags", "python", "abi"),
    [
        ("cp311-cp311-linux_x86_64", "cp311", None),
        ("cp311-cp311-linux_x86_64", "cp311", "cp311"),
        ("py3-none-any", "cp314", "abi3"),
        ("py2.py3-none-any", "cp311", "none"),
        ("cp39-abi3-linux_x86_64", "cp311", "abi3"),
        ("cp311-cp311-linux_x86_64", None, None),
    ],
)
def test_tags_that_the_cell_can_use_are_accepted(file_tags, python, abi):
    naming.check_tags(WheelName.parse(f"a-1-{file_tags}.whl"), python=python, abi=abi)


@pytest.mark.parametrize(
    ("file_tags", "python", "abi", "message"),
    [
        ("cp312-cp312-linux_x86_64", "cp311", None, "which cp311 cannot use"),
        ("cp312-abi3-linux_x86_64", "cp311", "abi3", "which cp311 cannot use"),
        ("cp311-cp311-linux_x86_64", "cp311", "abi3", "whose ABI is not 'abi3'"),
        ("cp311-abi3-linux_x86_64", "cp311", "none", "whose ABI is not 'none'"),
    ],
)
def test_tags_that_the_cell_cannot_use_are_errors(file_tags, python, abi, message):
    with pytest.raises(ActionError, match=rf"^the build made a-1-{file_tags}\.whl, {message}\n  hint: "):
        naming.check_tags(WheelName.parse(f"a-1-{file_tags}.whl"), python=python, abi=abi)
