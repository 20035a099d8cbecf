"""The audit of what a real nvcc made: suffixes of loose cubins, and what it links of nothing."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuforge.audit import audit
from gpuforge.toolkits.provision import provision
from gpuforge.toolkits.select import select

pytestmark = [
    pytest.mark.network,
    pytest.mark.toolkit,
    pytest.mark.xdist_group("audit-nvcc"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's compiler of CUDA 13.0 from PyPI."""
    root = tmp_path_factory.mktemp("toolkit") / "cuda"
    provision(select("13.0", provider=None, libraries=[], machine=platform.machine()).pins, root)
    return root / "bin" / "nvcc"


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_120f", "sm_121a"])
def test_a_loose_cubin_is_named_with_its_suffix(arch: str, nvcc: Path, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float *p) { p[threadIdx.x] *= 2; }\n")
    subprocess.run([nvcc, "-cubin", f"-arch={arch}", "k.cu", "-o", "k.cubin"], check=True, cwd=tmp_path)
    (held,) = audit([tmp_path / "k.cubin"]).wheels
    ((container,),) = (code.containers for code in held.facts.device)
    assert container.cubins == {arch}
    assert all(entry.toolkit for entry in container.entries)


def test_what_nvcc_links_of_nothing_is_not_asked_for_ptx(nvcc: Path, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float *p) { p[threadIdx.x] *= 2; }\n")
    options = ["-shared", "-Xcompiler", "-fPIC", "-arch=sm_80"]
    subprocess.run([nvcc, *options, "k.cu", "-o", "k.so"], check=True, cwd=tmp_path)
    found = {text: audit([tmp_path / "k.so"], expect=text).findings for text in ("80+ptx", "80,90+ptx")}
    assert {t: {f.code for f in fs if f.severity == "error"} for t, fs in found.items()} == {
        "80+ptx": set(),
        "80,90+ptx": {"GF401", "GF402"},
    }
