"""How CUDA's libraries come to users: bundled, by the system, static, by packages that are required or by extras."""

import json
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from builds import environment, install, run
from package_project import GXX, SUFFIX, Project, elf_files, function, library, text_of

from gpuforge.errors import ActionError
from gpuforge.wheel import metadata

pytestmark = pytest.mark.skipif(GXX is None or sys.platform != "linux", reason="needs g++ on Linux")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def cuda_project(project: Project) -> str:
    """Give the project an extension that needs cudart and, by a helper to be grafted, cuFFT; return its member."""
    cufft = library(project.libraries, "libcufft.so.12")
    code = f'extern "C" int {function("libcufft.so.12")}();\n'
    code += f'extern "C" int libhelper_so_1() {{ return {function("libcufft.so.12")}(); }}\n'
    library(project.libraries, "libhelper.so.1", code, str(cufft))
    project.extension(
        "demo/deep", ["libcuda.so.1", "libcudart.so.13", "libhelper.so.1"], "-Wl,-rpath,/build/lib"
    )
    return f"demo/deep/core{SUFFIX}"


def test_a_bundle_carries_the_toolkits_libraries_and_never_the_driver(project, tmp_path, capsys):
    member = cuda_project(project)
    project.extension("demo", ["libcufft.so.12"])
    made = project.package(linkage="bundle")
    said = capsys.readouterr().out
    assert "libcufft.so.12 opens libnvJitLink.so, libnvrtc.so by name for some of its features" in said
    found = elf_files(made, tmp_path / "unpacked")
    grafted = {re.sub("-[0-9a-f]{8}", "", PurePosixPath(name).name) for name in found if ".libs/" in name}
    assert grafted == {"libcudart.so.13", "libcufft.so.12", "libhelper.so.1"}
    assert "libcuda.so.1" in found[member].needed
    assert found[member].search_path == ("$ORIGIN/../../demo_cu13.libs",)
    assert "Requires-Dist" not in text_of(made, "METADATA")
    bill = json.loads(text_of(made, "sboms/gpuforge.cdx.json"))
    assert {part.get("purl") for part in bill["components"] if part["name"].startswith("libcu")} == {
        "pkg:pypi/nvidia-cuda-runtime@13.0.96",
        "pkg:pypi/nvidia-cufft@12.0.0.61",
    }


def test_system_declares_nothing_and_says_no_place(project, tmp_path):
    member = cuda_project(project)
    made = project.package(linkage="system")
    found = elf_files(made, tmp_path / "unpacked")
    helper = next(name for name in found if "/libhelper-" in name)
    assert set(found) == {member, helper}
    assert "libcudart.so.13" in found[member].needed
    assert found[member].search_path == ("$ORIGIN/../../demo_cu13.libs",)
    assert found[helper].search_path == ()
    assert "Requires-Dist" not in text_of(made, "METADATA")


def test_static_is_refused_while_a_library_of_cuda_is_needed(project):
    member = cuda_project(project)
    other = project.extension("demo/other", ["libcublas.so.13", "libcudart.so.13"])
    with pytest.raises(ActionError) as caught:
        project.package(linkage="static")
    assert str(caught.value) == (
        'linkage = "static" forbids CUDA libraries that are needed: '
        f"libcublas.so.13 (by demo/other/core{SUFFIX}), libcudart.so.13 (by {member}, demo/other/core{SUFFIX})\n"
        "  hint: link static ones (CMake: CUDA::cublas_static, CUDA::cudart_static; without CMake or nvcc, name them "
        "to the linker). NVIDIA's wheels have none but cudart_static. Take a toolkit that has them: "
        'provider = "redist", NVIDIA\'s archives (11.4 to 13.0), or "system"; or choose linkage = "pip"'
    )
    other.unlink()
    (project.tree / member).unlink()
    project.extension("demo/deep", ["libhelper.so.1"])  # which needs libcufft, and is grafted
    with pytest.raises(
        ActionError, match=r"needed: libcufft\.so\.12 \(by demo_cu13\.libs/libhelper-\w+\.so\.1\)"
    ) as caught:
        project.package(linkage="static")
    assert "CMake: CUDA::cufft_static" in str(caught.value)


def test_what_opens_its_parts_by_name_is_not_bundled(project):
    project.extension("demo", ["libnvrtc.so.13"])
    with pytest.raises(
        ActionError, match=r"libnvrtc\.so\.13, which cannot be put into a wheel: .* libnvrtc-builtins"
    ):
        project.package(linkage="bundle")


def test_packages_may_be_required_by_extras(project):
    project.extension("demo", ["libcudart.so.13"])
    assert text_of(project.package(requires="extra", naming="plain"), "METADATA") == (
        "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
        'Requires-Dist: nvidia-cuda-runtime>=13.0,<14; extra == "cuda13"\n'
        "Provides-Extra: cuda13\nProvides-Extra: cuda13-local\n\nA solver.\n"
    )


@pytest.mark.parametrize(
    ("naming", "left"),
    [
        ("suffix", ["plots", "cuda13", "cuda13-local"]),
        ("local", ["plots", "cuda13", "cuda13-local"]),
        ("plain", ["cuda12", "plots", "cuda13", "cuda13-local"]),
    ],
)
def test_extras_for_another_cuda_major_are_removed_from_a_wheel_named_for_one(project, naming, left):
    cuda_project(project)
    own = (
        "Provides-Extra: cuda12\nProvides-Extra: plots\nProvides-Extra: cuda13\n"
        'Requires-Dist: jax[cuda12]; extra == "cuda12"\nRequires-Dist: jax[cuda13]; extra == "cuda13"\n'
    )
    file = project.tree / "demo-1.0.dist-info" / "METADATA"
    file.write_text(file.read_text().replace("\n\n", f"\n{own}\n", 1))
    text = text_of(project.package(naming=naming, requires="extra"), "METADATA").encode()
    assert metadata.fields(text, "Provides-Extra") == left
    majors = {line for line in metadata.fields(text, "Requires-Dist") if line.startswith("jax")}
    assert majors == {f'jax[{extra}]; extra == "{extra}"' for extra in left if extra in {"cuda12", "cuda13"}}


def test_two_suffix_builds_installed_over_one_another_refuse_to_be_imported(project, tmp_path):
    project.tags = "py3-none-any"
    wheels = [project.package(f"out{cuda}", cuda=cuda) for cuda in ("12.4", "13.0")]
    python = environment(tmp_path / "env")

    def imported() -> str:
        return run(python, "-I", "-c", "import demo").stderr

    for wheel, said in zip(wheels, ("", "demo was installed 2 times"), strict=True):
        install(python, "--no-index", "--no-deps", wheel)
        assert said in imported()
    advice = [line.split() for line in imported().splitlines() if "-m pip" in line]
    assert advice[0][3:] == ["uninstall", "-y", "demo-cu12", "demo-cu13"]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *advice[0][3:]], check=True)
    install(python, "--no-index", "--no-deps", wheels[1])
    assert imported() == ""


def test_a_library_of_another_cuda_is_refused(project):
    project.extension("demo", ["libcudart.so.12"])
    with pytest.raises(
        ActionError, match=r"needs libcudart\.so\.12, which is of CUDA 12, and the wheel is for CUDA 13\.0"
    ):
        project.package()
