"""Real extensions, compiled by g++, linked with stand-ins for CUDA's libraries, through the whole step."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from packaging.utils import parse_wheel_filename

from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.errors import ActionError, UsageError
from gpuforge.package import links
from gpuforge.plan.requests import request
from gpuforge.plan.requests.wheel import PackageWheel
from gpuforge.steps import package_wheel
from gpuforge.wheel import metadata, unpacked, writer

GXX = shutil.which("g++")
pytestmark = pytest.mark.skipif(GXX is None or sys.platform != "linux", reason="needs g++ on Linux")
PINS = {"nvidia-cuda-runtime": "13.0.96", "nvidia-cufft": "12.0.0.61"}
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
EXTENSION = """
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "core"};
extern "C" { %s
PyMODINIT_FUNC PyInit_core() { %s return PyModule_Create(&module); } }
"""


def library(folder: Path, soname: str, source: str = "", *flags: str) -> Path:
    """Link a library that has `soname` and one function, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = source or f'extern "C" int {function(soname)}() {{ return 1; }}\n'
    compile_shared(folder / soname, text, f"-Wl,-soname,{soname}", *flags)
    return folder / soname


def function(soname: str) -> str:
    return re.sub(r"\W", "_", soname)


def compile_shared(output: Path, source: str, *flags: str) -> None:
    assert GXX is not None
    output.parent.mkdir(parents=True, exist_ok=True)
    code = output.parent / f"{output.name}.cpp"
    code.write_text(source)
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([GXX, "-shared", "-fPIC", include, "-o", output, code, *flags], check=True)
    code.unlink()


class Project:
    """A host wheel in the making: `extension` links one module with libraries, `wheel` packs all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "host"
        self.libraries = root / "toolkit" / "lib"
        info = self.tree / "demo-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\nA solver.\n")
        tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        self.tags = f"{tag}-{tag}-linux_x86_64"
        (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {self.tags}\n")
        (self.tree / "demo").mkdir()
        (self.tree / "demo" / "__init__.py").write_text("")

    def extension(self, place: str, sonames: list[str], *flags: str) -> Path:
        declared = "".join(f"int {function(name)}();\n" for name in sonames)
        called = "".join(f"{function(name)}();\n" for name in sonames)
        files = [
            str(p)
            for name in sonames
            if (p := self.libraries / name).exists() or library(self.libraries, name)
        ]
        target = self.tree / place / f"core{SUFFIX}"
        compile_shared(target, EXTENSION % (declared, called), *files, *flags)
        return target

    def wheel(self) -> Path:
        target = self.root / f"demo-1.0-{self.tags}.whl"
        writer.write(self.tree, target)
        return target

    def package(self, output: str = "out", **spec: object) -> Path:
        whole = {
            "wheel": str(self.wheel()),
            "package": "demo",
            "cuda": "13.0",
            "linkage": "pip",
            "naming": "suffix",
            "pins": PINS,
            "search_path": [str(self.libraries)],
            "work": str(self.root / "work"),
            **spec,
        }
        folder = self.root / output
        whole["output"] = str(folder)
        try:
            package_wheel.main(request.load(PackageWheel, json.dumps(whole)))
        finally:
            assert list((self.root / "work").glob("*")) == []
        (made,) = folder.iterdir()
        return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def elf_files(wheel: Path, folder: Path) -> dict[str, LinkedFile]:
    unpacked.unpack(wheel, folder)
    return {str(name): elf for name, elf in links.read_tree(folder).items()}


def text_of(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as bundle:
        (name,) = [name for name in bundle.namelist() if name.endswith(ending)]
        return bundle.read(name).decode()


def test_cuda_libraries_come_from_pip_and_others_are_grafted(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert core.runpath == ("$ORIGIN/../own", "$ORIGIN/../../demo_cu13.libs", "$ORIGIN/../../nvidia/cu13/lib")
    assert found[helper].runpath == ("$ORIGIN/../nvidia/cu13/lib",)
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


def test_the_same_input_gives_the_same_bytes_in_another_folder_at_another_time(tmp_path: Path) -> None:
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


def test_pip_installs_the_wheel_and_python_imports_it(project: Project, tmp_path: Path) -> None:
    project.extension("demo", ["libcudart.so.13"])
    made = project.package(naming="local")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", made], check=True)
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    library(Path(site) / "nvidia/cu13/lib", "libcudart.so.13")  # what nvidia-cuda-runtime would install
    code = "import demo.core; print([l.split()[-1] for l in open('/proc/self/maps') if 'libcudart' in l][0])"
    answer = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert (answer.stdout.strip(), answer.stderr) == (f"{site}/nvidia/cu13/lib/libcudart.so.13", "")
    shown = subprocess.run(
        [*pip, "show", "--files", "demo"], capture_output=True, text=True, check=True
    ).stdout
    assert "Version: 1.0+cu13\n" in shown
    assert "Requires: nvidia-cuda-runtime\n" in shown


def test_a_wheel_without_elf_files_keeps_its_tags(project: Project) -> None:
    project.tags = "py3-none-any"
    made = project.package(naming="plain")
    assert made.name == "demo-1.0-py3-none-any.whl"
    assert "Tag: py3-none-any\n" in text_of(made, "/WHEEL")


def test_kernels_go_in_with_the_runtime(project: Project, tmp_path: Path) -> None:
    packed = tmp_path / "packed" / "kernels" / "default"
    packed.mkdir(parents=True)
    (packed / "index.json").write_text("{}")
    project.tags = "py3-none-any"
    made = project.package(kernels=[str(tmp_path / "packed")])
    with zipfile.ZipFile(made) as bundle:
        assert {"demo/_gpuforge/__init__.py", "demo/_gpuforge/kernels/default/index.json"} <= set(
            bundle.namelist()
        )


def test_a_program_among_the_scripts_cannot_use_the_packages(project: Project) -> None:
    built = project.extension("demo", ["libcudart.so.13"])
    scripts = project.tree / "demo-1.0.data" / "scripts"
    scripts.mkdir(parents=True)
    built.rename(scripts / "tool")
    with pytest.raises(
        ActionError, match=r"scripts/tool needs libraries from nvidia/cu13/lib, but is installed out"
    ):
        project.package()


def test_a_strategy_that_renames_nothing_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="a wheel cannot be renamed by the strategy 'variant'"):
        project.package(naming="variant")


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


def test_a_bundle_carries_the_toolkits_libraries_and_never_the_driver(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member = cuda_project(project)
    project.extension("demo", ["libcufft.so.12"])
    made = project.package(linkage="bundle")
    said = capsys.readouterr().out
    assert "libcufft.so.12 opens libnvJitLink.so, libnvrtc.so by name for some of its features" in said
    found = elf_files(made, tmp_path / "unpacked")
    grafted = {re.sub("-[0-9a-f]{8}", "", PurePosixPath(name).name) for name in found if ".libs/" in name}
    assert grafted == {"libcudart.so.13", "libcufft.so.12", "libhelper.so.1"}
    assert "libcuda.so.1" in found[member].needed
    assert found[member].runpath == ("$ORIGIN/../../demo_cu13.libs",)
    assert "Requires-Dist" not in text_of(made, "METADATA")
    bill = json.loads(text_of(made, "sboms/gpuforge.cdx.json"))
    assert {part.get("purl") for part in bill["components"] if part["name"].startswith("libcu")} == {
        "pkg:pypi/nvidia-cuda-runtime@13.0.96",
        "pkg:pypi/nvidia-cufft@12.0.0.61",
    }


def test_system_declares_nothing_and_says_no_place(project: Project, tmp_path: Path) -> None:
    member = cuda_project(project)
    made = project.package(linkage="system")
    found = elf_files(made, tmp_path / "unpacked")
    helper = next(name for name in found if "/libhelper-" in name)
    assert set(found) == {member, helper}
    assert "libcudart.so.13" in found[member].needed
    assert found[member].runpath == ("$ORIGIN/../../demo_cu13.libs",)
    assert found[helper].runpath == ()
    assert "Requires-Dist" not in text_of(made, "METADATA")


def test_static_is_refused_while_a_library_of_cuda_is_needed(project: Project) -> None:
    member = cuda_project(project)
    with pytest.raises(
        ActionError, match=rf"{re.escape(member)} needs libcudart\.so\.13, which \[cuda\] linkage forbids"
    ):
        project.package(linkage="static")
    (project.tree / member).unlink()
    project.extension("demo/deep", ["libhelper.so.1"])  # which needs libcufft, and is grafted
    with pytest.raises(
        ActionError, match=r"demo_cu13\.libs/libhelper-\w+\.so\.1 needs libcufft\.so\.12, which"
    ) as caught:
        project.package(linkage="static")
    assert "CMake: CUDA::cufft_static" in str(caught.value)


def test_what_opens_its_parts_by_name_is_not_bundled(project: Project) -> None:
    project.extension("demo", ["libnvrtc.so.13"])
    with pytest.raises(
        ActionError, match=r"libnvrtc\.so\.13, which cannot be put into a wheel: .* libnvrtc-builtins"
    ):
        project.package(linkage="bundle")


def test_packages_may_be_required_by_extras(project: Project) -> None:
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
def test_extras_for_another_cuda_major_are_removed_from_a_wheel_named_for_one(
    project: Project, naming: str, left: list[str]
) -> None:
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


def test_two_suffix_builds_installed_over_one_another_refuse_to_be_imported(
    project: Project, tmp_path: Path
) -> None:
    project.tags = "py3-none-any"
    wheels = [project.package(f"out{cuda}", cuda=cuda) for cuda in ("12.4", "13.0")]
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]

    def imported() -> str:
        return subprocess.run(
            [python, "-I", "-c", "import demo"], capture_output=True, text=True, check=False
        ).stderr

    for wheel, said in zip(wheels, ("", "demo was installed 2 times"), strict=True):
        subprocess.run([*pip, "install", "--no-index", "--no-deps", wheel], check=True)
        assert said in imported()
    advice = [line.split() for line in imported().splitlines() if "-m pip" in line]
    assert advice[0][3:] == ["uninstall", "-y", "demo-cu12", "demo-cu13"]
    subprocess.run([*pip, *advice[0][3:]], check=True)
    subprocess.run([*pip, "install", "--no-index", "--no-deps", wheels[1]], check=True)
    assert imported() == ""


def test_a_library_of_another_cuda_is_refused(project: Project) -> None:
    project.extension("demo", ["libcudart.so.12"])
    with pytest.raises(
        ActionError, match=r"needs libcudart\.so\.12, which is of CUDA 12, and the wheel is for CUDA 13\.0"
    ):
        project.package()


def test_an_nvhpc_runtime_is_refused_even_behind_another_library(project: Project) -> None:
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


def test_a_library_that_is_nowhere_is_named_with_who_needs_it(project: Project) -> None:
    project.extension("demo", ["libghost.so.2"])
    (project.libraries / "libghost.so.2").unlink()
    with pytest.raises(ActionError, match=rf"^libghost\.so\.2, which demo/core{SUFFIX} needs, was not found"):
        project.package()


def test_symbols_newer_than_every_policy_are_named(project: Project, tmp_path: Path) -> None:
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


def test_a_wheel_beyond_the_size_limit_is_not_left(project: Project, tmp_path: Path) -> None:
    (project.tree / "demo" / "table.bin").write_bytes(os.urandom(2_000_000))
    with pytest.raises(ActionError) as caught:
        project.package(size_limit=1_500_000, naming="plain")
    message = str(caught.value)
    assert (
        "is 2.0 MB, more than [wheel] size-limit of 1.5 MB; its largest files, compressed: demo/table.bin 2.0 MB"
        in message
    )
    assert list((tmp_path / "out").iterdir()) == []


def test_the_size_limit_tells_what_each_architecture_takes(project: Project) -> None:
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


def test_a_full_disk_is_one_message_and_leaves_nothing(project: Project, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        (project.tree / "demo" / "table.bin").write_bytes(os.urandom(2_000_000))
        wheel = project.wheel()
        file = tmp_path / "request.json"
        step = [sys.executable, "-m", "gpuforge.steps.package_wheel", str(file)]
        spec = {"wheel": str(wheel), "package": "demo", "cuda": "13.0", "linkage": "pip", "naming": "plain"}
        spec["output"] = str(small / "out")
        for work, place in ((small, small), (tmp_path, small / "out")):
            file.write_text(json.dumps({**spec, "work": str(work)}))
            answer = subprocess.run(step, capture_output=True, text=True, check=False)
            assert answer.returncode == 1
            first, hint = answer.stderr.splitlines()
            assert re.fullmatch(rf"error: {place}/.*: No space left on device", first)
            assert hint == "  hint: free some space there, or choose another folder for the output"
            assert [path for path in small.rglob("*") if path.is_file()] == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.network
def test_with_the_real_cuda_runtime_from_the_index(project: Project, tmp_path: Path) -> None:
    toolkit = tmp_path / "pip"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--target", toolkit, "nvidia-cuda-runtime==13.0.96"],
        check=True,
    )
    real = toolkit / "nvidia/cu13/lib/libcudart.so.13"
    code = "int cudaRuntimeGetVersion(int *);\n"
    target = project.tree / "demo" / f"core{SUFFIX}"
    compile_shared(target, EXTENSION % (code, "int v = 0; cudaRuntimeGetVersion(&v);"), str(real))
    made = project.package(search_path=[str(real.parent)])
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    subprocess.run([*pip, "--python", python, "install", "--quiet", made], check=True)
    maps = "import demo.core; print({l.split()[-1] for l in open('/proc/self/maps') if 'libcudart' in l})"
    answer = subprocess.run([python, "-I", "-c", maps], capture_output=True, text=True, check=True)
    (mapped,) = eval(answer.stdout)  # noqa: S307  a set of strings, printed by ourselves
    assert mapped.startswith(str(tmp_path / "env"))
    assert mapped.endswith("/nvidia/cu13/lib/libcudart.so.13")


TORCH = {"package": "torch", "version": "2.15.0+cu130", "module": "torch"}


def carried(project: Project, libraries: dict[str, str]) -> str:
    """Write what the step before found in the build environment."""
    file = project.root / "carried.json"
    file.write_text(json.dumps([{**TORCH, "libraries": libraries}]))
    return str(file)


def test_libraries_of_another_package_stay_there(project: Project) -> None:
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
    assert elf.runpath == ("$ORIGIN/../torch/lib",)


def test_a_library_that_the_other_package_lacks_is_not_taken_for_its_own(project: Project) -> None:
    project.extension("demo", ["libc10.so", "libtorch_gone.so"])
    (project.libraries / "libtorch_gone.so").unlink()
    with pytest.raises(
        ActionError, match=r"libtorch_gone\.so, which demo/core.* needs, was not found"
    ) as caught:
        project.package(carried=carried(project, {"libc10.so": "torch/lib"}))
    assert "[wheel] provided-by" in caught.value.diagnostics[0].hint


def test_the_manifests_range_replaces_the_series(project: Project) -> None:
    project.extension("demo", ["libc10.so"])
    made = project.package(
        carried=carried(project, {"libc10.so": "torch/lib"}), more_requires=["torch>=2.11", "packaging"]
    )
    with zipfile.ZipFile(made) as archive:
        text = archive.read("demo_cu13-1.0.dist-info/METADATA").decode()
    assert re.findall("Requires-Dist: (.*)", text) == ["torch>=2.11", "packaging"]


def test_a_range_without_the_release_that_it_was_built_with(project: Project) -> None:
    project.extension("demo", ["libc10.so"])
    with pytest.raises(
        ActionError, match=r"requires torch<2\.10, but the wheel was linked with torch 2\.15\.0"
    ):
        project.package(carried=carried(project, {"libc10.so": "torch/lib"}), more_requires=["torch<2.10"])


def test_a_package_whose_libraries_are_not_used_is_not_required(project: Project) -> None:
    project.extension("demo", ["libcudart.so.13"])
    made = project.package(
        carried=carried(project, {"libc10.so": "torch/lib", "libstdc++.so.6": "torch/lib"})
    )
    with zipfile.ZipFile(made) as archive:
        text = archive.read("demo_cu13-1.0.dist-info/METADATA").decode()
        assert archive.read("demo/__init__.py").startswith(b"from . import _gpuforge_guard")
    assert re.findall("Requires-Dist: (.*)", text) == ["nvidia-cuda-runtime>=13.0,<14"]
