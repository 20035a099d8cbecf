"""The audit of what a real nvcc made: suffixes of cubins, and the findings about missing or odd device code."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from audit_samples import wheel

from gpuforge.audit import audit
from gpuforge.expectation import expecting
from gpuforge.runtime.arch import Arch

pytestmark = [
    pytest.mark.network,
    pytest.mark.toolkit,
    pytest.mark.xdist_group("audit-nvcc"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_120f", "sm_121a"])
def test_a_loose_cubin_is_named_with_its_suffix(arch, nvcc, tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float *p) { p[threadIdx.x] *= 2; }\n")
    subprocess.run([nvcc, "-cubin", f"-arch={arch}", "k.cu", "-o", "k.cubin"], check=True, cwd=tmp_path)
    (held,) = audit([tmp_path / "k.cubin"]).wheels
    ((container,),) = (code.containers for code in held.facts.device)
    assert container.cubins == {Arch.parse(arch)}
    assert all(entry.toolkit for entry in container.entries)


def test_what_nvcc_links_of_nothing_is_not_asked_for_ptx(nvcc, tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float *p) { p[threadIdx.x] *= 2; }\n")
    options = ["-shared", "-Xcompiler", "-fPIC", "-arch=sm_80"]
    subprocess.run([nvcc, *options, "k.cu", "-o", "k.so"], check=True, cwd=tmp_path)
    found = {
        text: audit([tmp_path / "k.so"], expectation=expecting(text)).findings
        for text in ("80+ptx", "80,90+ptx")
    }
    assert {t: {f.code for f in fs if f.severity == "error"} for t, fs in found.items()} == {
        "80+ptx": set(),
        "80,90+ptx": {"GF401", "GF402"},
    }


KERNEL = "__global__ void k(float *p) { p[threadIdx.x] *= 2; }\n"
ONLY_80 = f"#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800\n{KERNEL}#endif\n"


def codes(nvcc: Path, folder: Path, text: str, *targets: str) -> dict[str, str]:
    """Link a library for these targets (-gencode), and return the severity of each finding about it."""
    (folder / "k.cu").write_text(text)
    options = ["-shared", "-Xcompiler", "-fPIC", *(f"-gencode={target}" for target in targets)]
    subprocess.run([nvcc, *options, "k.cu", "-o", "k.so"], check=True, cwd=folder)
    return {f.code: f.severity for f in audit([folder / "k.so"]).findings}


def test_device_code_without_ptx_for_newer_gpus(nvcc, tmp_path):
    real, ptx = "arch=compute_80,code=sm_80", "arch=compute_80,code=compute_80"
    assert codes(nvcc, tmp_path, KERNEL, real)["GF403"] == "warning"
    assert "GF403" not in codes(nvcc, tmp_path, KERNEL, real, ptx)


def test_device_code_for_single_architectures(nvcc, tmp_path):
    assert codes(nvcc, tmp_path, KERNEL, "arch=compute_90a,code=[sm_90a,compute_90a]")["GF404"] == "info"
    assert "GF404" not in codes(nvcc, tmp_path, KERNEL, "arch=compute_90,code=[sm_90,compute_90]")


def test_ptx_whose_kernels_a_condition_left_out(nvcc, tmp_path):
    targets = ("arch=compute_80,code=sm_80", "arch=compute_90,code=compute_90")
    assert codes(nvcc, tmp_path, ONLY_80, *targets)["GF405"] == "warning"
    assert "GF405" not in codes(nvcc, tmp_path, KERNEL, *targets)


def test_ptx_of_two_toolkits_in_one_file(nvcc, tmp_path):
    (tmp_path / "k.cu").write_text(KERNEL)
    subprocess.run([nvcc, "-ptx", "-arch=compute_80", "k.cu", "-o", "new.ptx"], check=True, cwd=tmp_path)
    text = (tmp_path / "new.ptx").read_text()
    older = re.sub(r"^\.version .*", ".version 8.4", text, flags=re.MULTILINE)  # as CUDA 12.4 writes it
    (tmp_path / "old.ptx").write_text(older)
    pack = nvcc.with_name("fatbinary")
    for name, second in (("mixed", "old"), ("same", "new")):
        images = ["--image3=kind=ptx,sm=80,file=new.ptx", f"--image3=kind=ptx,sm=90,file={second}.ptx"]
        argv = [pack, "-64", f"--create={name}.fatbin", *images]
        subprocess.run(argv, check=True, cwd=tmp_path)
    found = {
        name: {f.code for f in audit([tmp_path / f"{name}.fatbin"]).findings} for name in ("mixed", "same")
    }
    assert "GF406" in found["mixed"]
    assert "GF406" not in found["same"]


REAL, OTHER = "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"
PTX = "-gencode arch=compute_X,code=compute_X"
# 33 MiB in a fatbin that is not packed
LARGE = f"__device__ unsigned char table[33 << 20] = {{1}};\n{KERNEL.replace('2', 'table[threadIdx.x]')}"
UNPACKED = [REAL, "-rdc=true", "--compress-mode=none"]


@pytest.mark.parametrize(
    ("code", "source", "fault", "advice", "flags"),
    [
        ("GF402", KERNEL, [REAL, OTHER], PTX, [PTX.replace("X", "90")]),
        ("GF402", KERNEL, [REAL, OTHER, "-rdc=true"], PTX, [PTX.replace("X", "90")]),
        (
            "GF403",
            KERNEL,
            [REAL],
            f"PTX of the newest architecture in the file that is older than the missing GPUs ({PTX})",
            [PTX.replace("X", "80")],
        ),
        ("GF403", KERNEL, [REAL, PTX.replace("X", "120")], PTX, [PTX.replace("X", "80")]),
        ("GF403", KERNEL, [REAL, "-rdc=true"], PTX, [PTX.replace("X", "80")]),
        ("GF407", LARGE, UNPACKED, "without relocatable device code", ["-rdc=false"]),
        ("GF407", LARGE, UNPACKED, "--compress-mode=size", ["--compress-mode=size"]),
        # machine code is of the CUDA that made it, 13 here; PTX is of the wheel's
        ("GF411", KERNEL, ["-gencode=arch=compute_80,code=compute_80"], "--compress-mode=speed", None),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "",
)
def test_the_flag_that_a_finding_names_mends_the_build(code, source, fault, advice, flags, nvcc, tmp_path):
    """Build with the flags of a fault, and again with those that are advised behind them."""
    (tmp_path / "k.cu").write_text(source)

    def found(*flags: str) -> dict[str, str]:
        words = " ".join(flags).split()
        # nvcc takes the last one of these options only with a warning
        last = {word.partition("=")[0]: word for word in words if word.startswith(("-rdc", "--compress"))}
        others = [word for word in words if word.partition("=")[0] not in last]
        argv = [nvcc, "-shared", "-Xcompiler", "-fPIC", *others, *last.values(), "k.cu", "-o", "k.so"]
        subprocess.run(argv, check=True, cwd=tmp_path)
        files = {"demo/k.so": (tmp_path / "k.so").read_bytes()}
        made = wheel(tmp_path, files, name="demo_cu12-1.0-py3-none-linux_x86_64.whl")
        expectation = expecting("80,90+ptx") if code == "GF402" else None
        return {f.code: f.fix for f in audit([made], expectation=expectation).findings}

    assert advice in found(*fault)[code]
    assert code not in found(*fault, *([advice] if flags is None else flags))
