"""`gpuforge repair`: a wheel of any tool becomes the one that a build would have made, and its reasons are printed."""

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from wheel_making import compile_library, pack

from gpuforge.audit import audit
from gpuforge.binary.elf import linked_file
from gpuforge.cli.main import run
from gpuforge.cli.options import Call
from gpuforge.wheel import metadata

CODE = 'extern "C" int made() { return 1; }\n'


def libraries(folder: Path, *names: str) -> list[Path]:
    return [
        compile_library(folder / name, CODE.replace("made", f"made{index}"))
        for index, name in enumerate(names)
    ]


def linked(tmp_path: Path, *names: str, requires: tuple[str, ...] = ()) -> Path:
    """A wheel as a build makes it: its module needs these libraries, by a search path of the build machine."""
    found = libraries(tmp_path / "lib", *names)
    path = f"-Wl,-rpath,{tmp_path / 'lib'}"
    module = compile_library(tmp_path / "_core.so", CODE, "-Wl,--no-as-needed", *found, path)
    init = tmp_path / "__init__.py"
    init.write_text('"""Demo."""\nfrom . import _core\n')
    return pack(tmp_path, {"demo/__init__.py": init, "demo/_core.so": module}, requires=requires)


def repair(wheel: Path, *options: str, environ: Mapping[str, str] = os.environ) -> tuple[int, Path | None]:
    status = run(["repair", str(wheel), "-w", str(wheel.parent / "out"), *options], Call(environ))
    return status, next(wheel.parent.glob("out/*.whl"), None)


def search_path(wheel: Path, member: str, folder: Path) -> tuple[str, ...]:
    with zipfile.ZipFile(wheel) as archive:
        found = linked_file.read(Path(archive.extract(member, folder)))
    assert found is not None
    return found.search_path


@pytest.mark.network
def test_the_libraries_of_cuda_are_required_and_found(tmp_path, capfd):
    status, made = repair(linked(tmp_path, "libcudart.so.13", "libcurand.so.10"))
    assert status == 0
    assert made is not None
    assert search_path(made, "demo/_core.so", tmp_path) == ("$ORIGIN/../nvidia/cu13/lib",)
    required = metadata.fields(metadata.of_wheel(made), "Requires-Dist")
    assert required == ["nvidia-cuda-runtime>=13.0,<14", "cuda-toolkit[curand]>=13.0,<14"]
    output, log = capfd.readouterr()
    assert output == f"{made}\n"
    for line in (
        "CUDA 13: it needs libcudart.so.13, libcurand.so.10\n",
        "left out libcurand.so.10: NVIDIA's packages have it\n",
        "demo/_core.so: RUNPATH $ORIGIN/../nvidia/cu13/lib\n",
        "requires nvidia-cuda-runtime>=13.0,<14\n",
    ):
        assert line in log
    assert audit([made]).worst() in {None, "info"}


@pytest.mark.network
def test_an_extra_brings_the_libraries_of_cuda(tmp_path):
    status, made = repair(linked(tmp_path, "libcudart.so.12"), "--requires", "extra")
    assert status == 0
    assert made is not None
    text = metadata.of_wheel(made)
    assert metadata.fields(text, "Requires-Dist") == ['nvidia-cuda-runtime-cu12>=12.0,<13; extra == "cuda12"']
    assert metadata.fields(text, "Provides-Extra") == ["cuda12", "cuda12-local"]


def test_libraries_of_the_build_go_into_the_wheel(tmp_path):
    wheel = linked(tmp_path, "libcudart.so.13", "libfft.so.3")
    status, made = repair(wheel, "--linkage", "bundle")
    assert status == 0
    assert made is not None
    with zipfile.ZipFile(made) as archive:
        grafted = [name for name in archive.namelist() if name.startswith("demo.libs/")]
    assert [name.split("-")[0] for name in grafted] == ["demo.libs/libcudart", "demo.libs/libfft"]
    assert search_path(made, "demo/_core.so", tmp_path) == ("$ORIGIN/../demo.libs",)


def test_libraries_are_found_in_a_toolkit_by_a_relative_path(tmp_path, capsys, monkeypatch):
    wheel = linked(tmp_path, "libcudart.so.13")
    (tmp_path / "lib").rename(tmp_path / "lib64")
    monkeypatch.chdir(tmp_path)
    assert repair(wheel, "--linkage", "bundle", "--toolkit", "lib64") == (2, None)
    assert (
        "error: --toolkit lib64: no folder lib64 or lib is there\n  hint: name the folder above them\n"
        in capsys.readouterr().err
    )
    status, made = repair(wheel, "--linkage", "bundle", "--toolkit", ".")
    assert status == 0
    assert made is not None


def test_a_library_that_was_excluded_is_named_with_that_reason(tmp_path, capsys):
    status, _ = repair(linked(tmp_path, "libmpi.so.40"), "--exclude", "libmpi")
    assert status == 0
    assert "left out libmpi.so.40: excluded, so the user's machine must have it\n" in capsys.readouterr().err


def test_libraries_are_found_by_the_variable_of_the_loader(tmp_path):
    wheel = linked(tmp_path, "libcudart.so.13", "libfft.so.3")
    (tmp_path / "lib").rename(tmp_path / "elsewhere")
    status, made = repair(wheel, "--linkage", "system")
    assert (status, made) == (1, None)
    environ = {"LD_LIBRARY_PATH": f"{tmp_path / 'elsewhere'}:"}
    status, made = repair(wheel, "--linkage", "system", environ=environ)
    assert status == 0
    assert made is not None
    with zipfile.ZipFile(made) as archive:
        grafted = [name for name in archive.namelist() if ".libs/" in name]
    assert [name.split("-")[0] for name in grafted] == ["demo.libs/libfft"]


def test_the_libraries_of_torch_stay_out_of_the_wheel(tmp_path, capsys):
    wheel = linked(tmp_path, "libc10.so", "libtorch_cpu.so", "libcuda.so.1")
    status, made = repair(wheel, "--provided-by", "torch==2.11")
    assert status == 0
    assert made is not None
    out = re.findall(r"^left out (.*)$", capsys.readouterr().err, re.MULTILINE)
    assert out == [
        "libc10.so: torch has it",
        "libcuda.so.1: the driver has it",
        "libtorch_cpu.so: torch has it",
    ]
    assert metadata.fields(metadata.of_wheel(made), "Requires-Dist") == ["torch>=2.11,<2.12"]
    assert search_path(made, "demo/_core.so", tmp_path) == ("$ORIGIN/../torch/lib",)
    with zipfile.ZipFile(made) as archive:
        assert archive.read("demo/__init__.py").splitlines()[1].startswith(b"import torch ")


def test_the_wheels_own_requirement_of_torch_stays(tmp_path):
    status, made = repair(linked(tmp_path, "libc10.so", requires=("torch>=2.10",)))
    assert status == 0
    assert made is not None
    assert metadata.fields(metadata.of_wheel(made), "Requires-Dist") == ["torch>=2.10"]


def test_the_wheel_to_repair_is_not_overwritten(tmp_path, capsys):
    _, made = repair(linked(tmp_path, "libfft.so.3"))
    assert made is not None
    before = made.read_bytes()
    assert run(["repair", str(made), "-w", str(made.parent)]) == 2
    assert "has the same name\n  hint: name another folder with -w\n" in capsys.readouterr().err
    assert made.read_bytes() == before


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("libcurand.so.10",),
            "demo-1.0-cp311-cp311-linux_x86_64.whl needs libcurand.so.10, which several CUDA majors have, and its name "
            "has no CUDA version\n  hint: say which one it was built with: --cuda 12\n",
        ),
        (
            ("libcudart.so.12", "libcublas.so.13"),
            "demo-1.0-cp311-cp311-linux_x86_64.whl has files for CUDA 12 and 13, and can require or bundle the "
            "libraries of one major only\n  hint: --linkage system leaves CUDA's libraries to what the user has, such "
            "as torch's\n",
        ),
        (
            ("libc10.so",),
            "the wheel needs libc10.so of torch, and does not require torch\n  hint: name the release that it was "
            "built with: --provided-by 'torch==…'\n",
        ),
    ],
)
def test_what_the_wheel_does_not_tell_is_asked_for(tmp_path, capsys, names, message):
    assert repair(linked(tmp_path, *names)) == (2, None)
    assert f"error: {message}" in capsys.readouterr().err


def test_all_libraries_that_are_nowhere_are_named_at_once(tmp_path, capsys):
    wheel = linked(tmp_path, "libfft_of_ours.so.3", "libmpi_of_ours.so.40")
    (tmp_path / "lib").rename(tmp_path / "elsewhere")
    assert repair(wheel) == (1, None)
    assert (
        "error: not found on the build machine: libfft_of_ours.so.3, libmpi_of_ours.so.40; needed by "
        "demo/_core.so\n" in capsys.readouterr().err
    )


def test_a_wheel_that_cannot_be_repaired_does_not_keep_the_others_back(tmp_path, capsys):
    good = linked(tmp_path, "libfft.so.3")
    bad = good.with_name("bad-1.0-cp311-cp311-linux_x86_64.whl")
    bad.write_bytes(b"no archive")
    out = tmp_path / "out"
    assert run(["repair", str(bad), str(good), "-w", str(out)]) == 1
    assert [made.name.split("-")[0] for made in out.glob("*.whl")] == ["demo"]
    assert "error: " in capsys.readouterr().err
    (sdist := tmp_path / "demo-1.0.tar.gz").write_bytes(b"")
    assert run(["repair", str(sdist), "-w", str(out)]) == 2
    assert f"not a wheel (.whl): {sdist}" in capsys.readouterr().err
    assert run(["repair", str(tmp_path / "no.whl"), "-w", str(out)]) == 2
    assert f"there is no file {tmp_path / 'no.whl'}" in capsys.readouterr().err


def test_own_libraries_that_only_a_load_before_found_are_found_by_a_runpath(tmp_path):
    """As torchcodec's, whose Python code loads the one before the other; the system's must not be grafted."""
    own = compile_library(tmp_path / "libown.so", CODE)
    module = compile_library(tmp_path / "_core.so", CODE.replace("made", "core"), "-Wl,--no-as-needed", own)
    apart = compile_library(
        tmp_path / "_apart.so", CODE, "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../demo.libs"
    )
    wheel = pack(
        tmp_path, {"demo/_core.so": module, "demo/lib/libown.so": own, "demo/_apart.so": apart}
    )  # an RPATH elsewhere leads to no such library
    status, made = repair(wheel, environ={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert status == 0
    assert made is not None
    assert search_path(made, "demo/_core.so", tmp_path / "x") == ("$ORIGIN/lib",)
    with zipfile.ZipFile(made) as archive:
        assert not [name for name in archive.namelist() if ".libs/" in name]


def test_files_for_several_cuda_majors_are_left_to_the_users_machine(tmp_path):
    status, made = repair(linked(tmp_path, "libcudart.so.12", "libcublas.so.13"), "--linkage", "system")
    assert status == 0
    assert made is not None
    with zipfile.ZipFile(made) as archive:
        assert not [name for name in archive.namelist() if ".libs/" in name]


def test_libraries_that_an_inherited_rpath_found_are_found_by_a_runpath(tmp_path):
    """Older auditwheels gave grafted libraries no search path: the RPATH of the module led to them."""
    (inner,) = libraries(tmp_path / "demo.libs", "libinner-1a2b3c4d.so")
    outer = compile_library(
        tmp_path / "demo.libs" / "libouter-1a2b3c4d.so", CODE, "-Wl,--no-as-needed", inner
    )
    path = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../demo.libs"
    module = compile_library(
        tmp_path / "_core.so", CODE, "-Wl,--no-as-needed", outer, path, f"-Wl,-rpath-link,{inner.parent}"
    )
    files = {f"demo.libs/{each.name}": each for each in (inner, outer)} | {"demo/_core.so": module}
    status, made = repair(pack(tmp_path, files))
    assert status == 0
    assert made is not None
    assert search_path(made, "demo.libs/libouter-1a2b3c4d.so", tmp_path) == ("$ORIGIN",)


def test_a_wheel_that_was_repaired_before_is_told_from_one_that_links_so(tmp_path, capsys):
    (runtime,) = libraries(tmp_path / "demo.libs", "libcudart-1a2b3c4d.so.13")
    assert repair(pack(tmp_path, {f"demo.libs/{runtime.name}": runtime})) == (1, None)
    told = capsys.readouterr().err
    assert "the wheel came with demo.libs/libcudart-1a2b3c4d.so.13, a copy of libcudart.so.13" in told


def test_a_tag_that_promises_older_systems_than_the_wheel_needs_goes(tmp_path):
    """auditwheel adds the right tag, and leaves the wrong one."""
    code = (
        '#include <sys/random.h>\nextern "C" int made(char *c) { return getrandom(c, 1, 0); }\n'  # glibc 2.25
    )
    made = pack(tmp_path, {"demo/_core.so": compile_library(tmp_path / "_core.so", code)})
    status, repaired = repair(made.rename(tmp_path / "demo-1.0-cp311-cp311-manylinux2014_x86_64.whl"))
    assert status == 0
    assert repaired is not None
    assert repaired.name == "demo-1.0-cp311-cp311-manylinux_2_26_x86_64.whl"
    with zipfile.ZipFile(repaired) as archive:
        assert b"manylinux2014" not in archive.read("demo-1.0.dist-info/WHEEL")
