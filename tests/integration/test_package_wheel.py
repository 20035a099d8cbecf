"""Real extensions, compiled by g++, linked with stand-ins for CUDA's libraries, through the whole step."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from builds import environment, install, run
from package_project import (
    EXTENSION,
    GXX,
    SUFFIX,
    Project,
    compile_shared,
    elf_files,
    function,
    library,
    text_of,
)
from packaging.utils import parse_wheel_filename

from gpuforge.errors import ActionError
from gpuforge.wheel import unpacked

pytestmark = pytest.mark.skipif(GXX is None or sys.platform != "linux", reason="needs g++ on Linux")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_cuda_libraries_come_from_pip_and_others_are_grafted(project, tmp_path, capsys):
    cufft = library(project.libraries, "libcufft.so.12")
    library(
        project.libraries,
        "libhelper.so.1",
        f'extern "C" int {function("libcufft.so.12")}();\n'
        f'extern "C" int libhelper_so_1() {{ return {function("libcufft.so.12")}(); }}\n',
        str(cufft),
        "-Wl,--disable-new-dtags,-rpath,/opt/build/lib",
    )
    project.extension(
        "demo/deep",
        ["libcuda.so.1", "libcufft.so.12", "libhelper.so.1", "libcudart.so.13"],
        "-Wl,-rpath,/build/toolkit/lib:$ORIGIN/../own",
    )
    made = project.package()
    assert str(parse_wheel_filename(made.name)[0]) == "demo-cu13"
    assert re.fullmatch(r"demo_cu13-1\.0-cp\d+-cp\d+-manylinux[\w.]+_x86_64\.whl", made.name)
    found = elf_files(made, tmp_path / "unpacked")
    helper = next(name for name in found if name.startswith("demo_cu13.libs/libhelper-"))
    assert found.keys() == {f"demo/deep/core{SUFFIX}", helper}
    core = found[f"demo/deep/core{SUFFIX}"]
    assert set(core.needed) >= {
        "libcuda.so.1",
        "libcufft.so.12",
        "libcudart.so.13",
        PurePosixPath(helper).name,
    }
    assert core.search_path == (
        "$ORIGIN/../own",
        "$ORIGIN/../../demo_cu13.libs",
        "$ORIGIN/../../nvidia/cu13/lib",
    )
    assert found[helper].search_path == ("$ORIGIN/../nvidia/cu13/lib",)
    assert not core.has_rpath
    assert not found[helper].has_rpath
    assert text_of(made, "METADATA") == (
        "Metadata-Version: 2.1\nName: demo-cu13\nVersion: 1.0\n"
        "Requires-Dist: nvidia-cuda-runtime>=13.0,<14\nRequires-Dist: nvidia-cufft>=12.0,<13\n\nA solver.\n"
    )
    tags = [
        line.removeprefix("Tag: ") for line in text_of(made, "/WHEEL").splitlines() if line.startswith("Tag")
    ]
    assert tags == sorted(map(str, parse_wheel_filename(made.name)[3]))
    said = capsys.readouterr().out
    assert f"demo/deep/core{SUFFIX}: dropped from its RUNPATH: /build/toolkit/lib\n" in said


def test_the_same_input_gives_the_same_bytes_in_another_folder_at_another_time(tmp_path):
    made = []
    for name in ("one", "two/and/deeper"):
        project = Project(tmp_path / name)
        if not made:
            library(project.libraries, "libhelper.so.1")
            project.extension("demo", ["libcudart.so.13", "libhelper.so.1"])
        else:
            shutil.copytree(tmp_path / "one" / "host", project.tree, dirs_exist_ok=True)
            shutil.copytree(tmp_path / "one" / "toolkit", tmp_path / name / "toolkit")
        for file in unpacked.files(project.tree):
            os.utime(file, (1.5e9 + len(made), 1.5e9))
        made.append(project.package())
    assert made[0].name == made[1].name
    assert made[0].read_bytes() == made[1].read_bytes()


def test_pip_installs_the_wheel_and_python_imports_it(project, tmp_path):
    project.extension("demo", ["libcudart.so.13"])
    made = project.package(naming="local")
    python = environment(tmp_path / "env", "--no-index", "--no-deps", made)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").stdout.strip()
    library(Path(site) / "nvidia/cu13/lib", "libcudart.so.13")  # what nvidia-cuda-runtime would install
    code = "import demo.core; print([l.split()[-1] for l in open('/proc/self/maps') if 'libcudart' in l][0])"
    answer = run(python, "-I", "-c", code)
    assert (answer.stdout.strip(), answer.stderr) == (f"{site}/nvidia/cu13/lib/libcudart.so.13", "")
    shown = run(sys.executable, "-m", "pip", "--python", python, "show", "demo").stdout
    assert "Version: 1.0+cu13\n" in shown
    assert "Requires: nvidia-cuda-runtime\n" in shown


def test_a_wheel_without_elf_files_keeps_its_tags(project):
    project.tags = "py3-none-any"
    made = project.package(naming="plain")
    assert made.name == "demo-1.0-py3-none-any.whl"
    assert "Tag: py3-none-any\n" in text_of(made, "/WHEEL")


def test_kernels_go_in_with_the_runtime(project, tmp_path):
    packed = tmp_path / "packed" / "kernels" / "default"
    packed.mkdir(parents=True)
    (packed / "index.json").write_text(json.dumps({"name": "default", "kind": "module", "modules": []}))
    project.tags = "py3-none-any"
    made = project.package(kernels=[str(tmp_path / "packed")])
    with zipfile.ZipFile(made) as bundle:
        assert {"demo/_gpuforge/__init__.py", "demo/_gpuforge/kernels/default/index.json"} <= set(
            bundle.namelist()
        )


def test_a_program_among_the_scripts_cannot_use_the_packages(project):
    built = project.extension("demo", ["libcudart.so.13"])
    scripts = project.tree / "demo-1.0.data" / "scripts"
    scripts.mkdir(parents=True)
    built.rename(scripts / "tool")
    with pytest.raises(
        ActionError, match=r"scripts/tool needs libraries from nvidia/cu13/lib, but is installed out"
    ):
        project.package()


def test_an_nvhpc_runtime_is_refused_even_behind_another_library(project):
    library(
        project.libraries,
        "libacc.so",
        'extern "C" int libnvhpcatm_so(); extern "C" int libacc_so() { return libnvhpcatm_so(); }',
        str(library(project.libraries, "libnvhpcatm.so")),
    )
    project.extension("demo", ["libacc.so"])
    with pytest.raises(
        ActionError, match=r"auditwheel grafted libnvhpcatm\.so as demo_cu13\.libs/libnvhpcatm-"
    ):
        project.package()
    project.extension("demo", ["libnvhpcatm.so"])
    with pytest.raises(ActionError, match=r"needs libnvhpcatm\.so, a runtime of the NVIDIA HPC compilers"):
        project.package()


def test_a_library_that_is_nowhere_is_named_with_who_needs_it(project):
    project.extension("demo", ["libghost.so.2"])
    (project.libraries / "libghost.so.2").unlink()
    message = rf"^not found on the build machine: libghost\.so\.2; needed by demo/core{SUFFIX}\n"
    with pytest.raises(ActionError, match=message):
        project.package()


def test_symbols_newer_than_every_policy_are_named(project, tmp_path):
    (tmp_path / "map").write_text("GLIBC_2.99 { global: *; };\n")
    library(
        project.libraries,
        "libm.so.6",
        'extern "C" int libm_so_6() { return 1; }',
        f"-Wl,--version-script={tmp_path}/map",
    )
    project.extension("demo", ["libm.so.6"])
    with pytest.raises(ActionError) as caught:
        project.package()
    assert str(caught.value) == (
        f"no manylinux policy allows this wheel: demo/core{SUFFIX} needs GLIBC_2.99 of libm.so.6\n"
        "  hint: build on an older system, such as the image of [wheel]"
    )


def test_a_wheel_beyond_the_size_limit_is_not_left(project, tmp_path):
    (project.tree / "demo" / "table.bin").write_bytes(os.urandom(2_000_000))
    with pytest.raises(ActionError) as caught:
        project.package(size_limit=1_500_000, naming="plain")
    message = str(caught.value)
    assert (
        "is 2.0 MB, more than [wheel] size-limit of 1.5 MB; its largest files, compressed: demo/table.bin 2.0 MB"
        in message
    )
    assert list((tmp_path / "out" / "wheel").iterdir()) == []


def test_the_size_limit_tells_what_each_architecture_takes(project):
    images = b"".join(
        struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, size, 0, 0, 0, 9, arch, 0, 0, 1, 0, 0)
        + os.urandom(size)
        for kind, arch, size in ((2, 80, 400_000), (2, 90, 800_000), (1, 90, 160_000))
    )
    fatbin = bytes.fromhex("50ed55ba01001000") + struct.pack("<Q", len(images)) + images
    (project.tree / "demo" / "kernels.fatbin").write_bytes(fatbin)
    (project.tree / "demo" / "table.bin").write_bytes(os.urandom(300_000))
    with pytest.raises(ActionError) as caught:
        project.package(size_limit=1_000_000, naming="plain")
    found = re.search(
        r"; by GPU architecture: sm_90 80\d\.\d kB, sm_80 40\d\.\d kB, PTX compute_90 16\d\.\d kB, "
        r"no GPU code 30\d\.\d kB",
        str(caught.value),
    )
    assert found, str(caught.value)


def test_a_full_disk_is_one_message_and_leaves_nothing(project, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        (project.tree / "demo" / "table.bin").write_bytes(os.urandom(2_000_000))
        wheel = project.wheel()
        spec = {"wheel": str(wheel), "package": "demo", "cuda": "13.0", "linkage": "pip", "naming": "plain"}
        for work, place in ((small, small), (tmp_path, small / "wheel")):
            file, result = work / "request.json", small / "result.json"
            file.write_text(json.dumps(spec))
            step = ["-m", "gpuforge.actions.entry", "wheel.PackageWheel", str(file), str(result)]
            answer = run(sys.executable, *step)
            file.unlink()
            result.unlink()
            assert answer.returncode == 1
            first, hint = answer.stderr.splitlines()
            assert re.fullmatch(rf"error: {place}/.*: No space left on device", first)
            assert hint == "  hint: free some space there, or choose another folder for the output"
            assert [path for path in small.rglob("*") if path.is_file()] == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.network
def test_with_the_real_cuda_runtime_from_the_index(project, tmp_path):
    toolkit = tmp_path / "pip"
    install(Path(sys.executable), "--no-deps", "--target", toolkit, "nvidia-cuda-runtime==13.0.96")
    real = toolkit / "nvidia/cu13/lib/libcudart.so.13"
    code = "int cudaRuntimeGetVersion(int *);\n"
    target = project.tree / "demo" / f"core{SUFFIX}"
    compile_shared(target, EXTENSION % (code, "int v = 0; cudaRuntimeGetVersion(&v);"), str(real))
    made = project.package(toolkit=str(real.parent.parent))
    python = environment(tmp_path / "env", made)
    maps = "import demo.core; print({l.split()[-1] for l in open('/proc/self/maps') if 'libcudart' in l})"
    answer = run(python, "-I", "-c", maps)
    (mapped,) = eval(answer.stdout)  # noqa: S307  a set of strings, printed by ourselves
    assert mapped.startswith(str(tmp_path / "env"))
    assert mapped.endswith("/nvidia/cu13/lib/libcudart.so.13")
