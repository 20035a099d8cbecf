"""Libraries of another package stay there: which release is required, and what it lacks."""

import re
import sys
import zipfile
from pathlib import Path

import pytest
from package_project import GXX, Project

from gpuforge.actions import value_file
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.errors import ActionError
from gpuforge.package import links

pytestmark = pytest.mark.skipif(GXX is None or sys.platform != "linux", reason="needs g++ on Linux")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def carried(project: Project, libraries: dict[str, str]) -> str:
    """Write what the step before found in the build environment."""
    file = project.root / "carried.json"
    torch = Carried("torch", "2.15.0+cu130", "torch", libraries)
    value_file.write(BuildLibraries((torch,), {"librmm.so": "librmm-cu13"}), file)
    return str(file)


def test_libraries_of_another_package_stay_there(project):
    project.extension("demo", ["libc10.so", "libtorch.so"])
    made = project.package(carried=carried(project, {"libc10.so": "torch/lib", "libtorch.so": "torch/lib"}))
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        text = archive.read("demo_cu13-1.0.dist-info/METADATA").decode()
        init = archive.read("demo/__init__.py").decode()
        archive.extractall(project.root / "made")
    assert not [name for name in names if "libtorch" in name or "libc10" in name]
    assert "Requires-Dist: torch>=2.15,<2.16\n" in text
    assert init.startswith("import torch as _torch")
    (elf,) = links.read_tree(project.root / "made").values()
    assert elf.search_path == ("$ORIGIN/../torch/lib",)


def test_a_library_that_the_other_package_lacks_is_not_taken_for_its_own(project):
    project.extension("demo", ["libc10.so", "libtorch_gone.so"])
    (project.libraries / "libtorch_gone.so").unlink()
    with pytest.raises(ActionError, match=r"not found on the build machine: libtorch_gone\.so; ") as caught:
        project.package(carried=carried(project, {"libc10.so": "torch/lib"}))
    assert "(provided-by)" in caught.value.diagnostics[0].hint


def test_a_library_that_a_package_of_the_build_has_names_the_package(project):
    project.extension("demo", ["librmm.so"])
    (project.libraries / "librmm.so").unlink()
    with pytest.raises(ActionError, match=r"librmm\.so \(needed by demo/core.*\) was not found") as caught:
        project.package(carried=carried(project, {}))
    assert caught.value.diagnostics[0].hint == (
        'librmm-cu13 has it in the build environment: add "librmm-cu13" to [wheel] provided-by'
    )


def test_the_manifests_range_replaces_the_series(project):
    project.extension("demo", ["libc10.so"])
    made = project.package(
        carried=carried(project, {"libc10.so": "torch/lib"}), more_requires=["torch>=2.11", "packaging"]
    )
    with zipfile.ZipFile(made) as archive:
        text = archive.read("demo_cu13-1.0.dist-info/METADATA").decode()
    assert re.findall("Requires-Dist: (.*)", text) == ["torch>=2.11", "packaging"]


def test_a_range_without_the_release_that_it_was_built_with(project):
    project.extension("demo", ["libc10.so"])
    with pytest.raises(
        ActionError, match=r"requires torch<2\.10, but the wheel was linked with torch 2\.15\.0"
    ):
        project.package(carried=carried(project, {"libc10.so": "torch/lib"}), more_requires=["torch<2.10"])


def test_a_package_whose_libraries_are_not_used_is_not_required(project):
    project.extension("demo", ["libcudart.so.13"])
    made = project.package(
        carried=carried(project, {"libc10.so": "torch/lib", "libstdc++.so.6": "torch/lib"})
    )
    with zipfile.ZipFile(made) as archive:
        text = archive.read("demo_cu13-1.0.dist-info/METADATA").decode()
        assert archive.read("demo/__init__.py").startswith(b"from . import _gpuforge_guard")
    assert re.findall("Requires-Dist: (.*)", text) == ["nvidia-cuda-runtime>=13.0,<14"]
