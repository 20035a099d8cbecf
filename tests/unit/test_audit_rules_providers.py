"""Rules about who provides what, and where it is searched for: the cases beyond the plainest."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import CU13, elf, lib, wheel
from rule_cases.providers import RELEASE

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.cuda.provided import PackageRelease, Provided

RUNTIME = "$ORIGIN/../nvidia/cuda_runtime/lib"


def test_makefiles_and_dead_paths_name_the_sdk(tmp_path: Path) -> None:
    sdk = "/opt/nvidia/hpc_sdk/Linux_x86_64/22.1/compilers"
    files = {
        "demo.libs/libnvc-0a1b2c3d.so": lib("libnvc-0a1b2c3d.so"),
        "demo/libcore.so": elf(
            needed=["libnvc-0a1b2c3d.so"], runpath="$ORIGIN/../demo.libs", strings=[f"{sdk}/lib"]
        ),
        "demo/demo_makefile": f"CXX = {sdk}/bin/nvc++\nLD = -cuda -gpu=cuda11.5,cc80\n".encode(),
    }
    (found,) = [f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF101"]
    assert lines(found) == (
        "libnvc-0a1b2c3d.so (NVIDIA HPC SDK 22.1), loaded by libcore.so; "
        "libnvc.so comes beside it when users link against libcore.so",
        "demo/demo_makefile: asks for nvc++ of the NVIDIA HPC SDK 22.1",
        "demo/demo_makefile: asks for -gpu=cuda11.5,cc80",
    )


@pytest.mark.parametrize(
    ("requires", "release", "found"),
    [
        (["nvidia-curand"], RELEASE, 1),
        (["nvidia-curand", "nvidia-cuda-runtime>=13.0,<14"], RELEASE, 0),
        (["cuda-toolkit[cudart,curand]==13.*"], RELEASE, 0),
        (["nvidia-curand"], RELEASE._replace(requires=("nvidia-cuda-runtime",)), 0),
        (["nvidia-curand", "nvidia-cuda-runtime-cu12"], RELEASE, 1),
    ],
)
def test_gf214_a_required_package_needs_what_nothing_installs(
    tmp_path: Path, requires: list[str], release: PackageRelease, found: int
) -> None:
    files = {"demo/ext.so": elf(needed=["libcurand.so.10"], runpath=CU13)}
    report = audit([wheel(tmp_path, files, requires=requires)], brought=Provided(releases=(release,)))
    findings = [f for f in report.findings if f.code == "GF214"]
    assert len(findings) == found
    for finding in findings:
        assert (finding.severity, finding.files) == ("error", ("demo/ext.so",))
        assert lines(finding) == ("libcudart.so.13 (for libcurand.so.10 of nvidia-curand 10.4.5.25, newest)",)


@pytest.mark.parametrize(
    ("code", "alone"),
    [
        (b"from . import ext\n", "No import loads these objects"),
        (b"ctypes.CDLL(os.path.join(HERE, 'libprovider.so'))\n", "The import fails"),
        (b"ctypes.CDLL(os.path.join(HERE, name))\n", "The import fails"),
    ],
)
def test_the_import_fails_only_where_it_loads_the_object(tmp_path: Path, code: bytes, alone: str) -> None:
    files = {
        "demo/__init__.py": code,
        "demo/ext.so": elf(strings=["PyInit_ext"]),
        "demo/libprovider.so": elf(needed=["libnone.so.1"]),
    }
    (found,) = (f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF201")
    assert alone in found.message


@pytest.mark.parametrize(("needed", "alternatives"), [("libavutil.so.59", True), ("libswscale.so.8", False)])
def test_alternatives_need_versions_of_one_library(tmp_path: Path, needed: str, alternatives: bool) -> None:
    names = {"demo/_f6.so": "libavutil.so.58", "demo/_f7.so": needed}
    files = {file: elf(needed=[name], strings=["PyInit__f"]) for file, name in names.items()}
    (found,) = (f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF201")
    assert ("alternatives" in found.message) == alternatives


def test_a_guess_proves_no_tag(tmp_path: Path) -> None:
    for needed, requires, proved in (
        ("libhidden.so", ["demo-core==1.0"], False),  # a part of the same release may have it
        ("libcudart.so.12", ["nvidia-cuda-runtime-cu12"], True),
    ):
        files = {"demo/ext.so": elf(needed=[needed], versions={"libc.so.6": ["GLIBC_2.4"]}, runpath=RUNTIME)}
        (found,) = audit([wheel(tmp_path, files, requires=requires)]).wheels
        assert any(proof.topic == "platform" for proof in found.proofs) is proved


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        (b"", True),
        (b"ctypes.CDLL('libcufft.so.12', mode=ctypes.RTLD_GLOBAL)\n", False),
        (b"ctypes.CDLL('libcublas.so.13', mode=ctypes.RTLD_GLOBAL)\n", True),
    ],
)
def test_functions_of_a_library_that_python_code_opens_are_found(
    tmp_path: Path, code: bytes, lost: bool
) -> None:
    files = {"demo/__init__.py": code, "demo/libx.so": elf(undefined=["cufftExecC2C"])}
    assert lost == any(f.code == "GF215" for f in audit([wheel(tmp_path, files)]).findings)


@pytest.mark.parametrize("requires", ["torch>=2.8", "torchvision"])
def test_a_requirement_brings_the_framework(tmp_path: Path, requires: str) -> None:
    files = {"demo/__init__.py": b"import torch\n", "demo/ext.so": elf()}
    report = audit([wheel(tmp_path, files, requires=[requires])])
    assert "GF217" not in {finding.code for finding in report.findings}
