"""What a module must be so that it enters a kernel set: the code of its target, and no other."""

import zipfile
from pathlib import Path

import pytest

from gpuforge.actions.module_images import images_of
from gpuforge.cuda.kernels import KernelImage
from gpuforge.errors import ActionError
from gpuforge.package.contents import CompiledModule
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.toolchains.iree import TOOLCHAIN

PTX = "//\n.version {isa}\n.target {target}\n.address_size 64\n.visible .entry f() {{ ret; }}\0"


def compiled(tmp_path: Path, kind: str, arch: str, members: dict[str, str] | bytes) -> CompiledModule[Path]:
    file = tmp_path / "made.vmfb"
    if isinstance(members, bytes):
        file.write_bytes(members)
    else:
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
    built_for = CpuLevel(arch) if kind == "iree-cpu" else Arch.parse(arch) if arch else None
    return CompiledModule("kernels/a.mlir", file, (KernelImage(kind, built_for),), arch or kind, ".vmfb")


def ptx(target: str, isa: str = "7.6") -> str:
    return PTX.format(target=target, isa=isa)


@pytest.mark.parametrize(
    ("kind", "arch", "members", "image"),
    [
        (
            "iree-cuda",
            "compute_80",
            {
                "module.fb": "",
                "f_0_cuda_nvptx_fb.fb": ptx("sm_80"),
                "f_1_cuda_nvptx_fb.fb": ptx("sm_80", "7.10"),
            },
            KernelImage("iree-cuda", Arch(8, 0), "7.10"),
        ),
        ("iree-vulkan", "", {"module.fb": "", "f_vulkan_spirv_fb.fb": ""}, KernelImage("iree-vulkan", None)),
        (
            "iree-cpu",
            "x86-64-v3",
            {"module.fb": "", "f_embedded_elf_x86_64.so": ""},
            KernelImage("iree-cpu", CpuLevel("x86-64-v3")),
        ),
        ("ptx", "compute_75", ptx("sm_75").encode(), KernelImage("ptx", Arch(7, 5), "7.6")),
    ],
)
def test_the_image_of_a_target(tmp_path, kind, arch, members, image):
    assert images_of(compiled(tmp_path, kind, arch, members)) == (image,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "arch", "members", "message"),
    [
        ("iree-cuda", "compute_80", {"f_cuda_nvptx_fb.fb": ptx("sm_60")}, "compiled for compute_80 and has compute_60"),
        ("iree-cuda", "compute_80", {"f_cuda_nvptx_fb.fb": ""}, "was compiled for compute_80 and has no PTX"),
        ("iree-cuda", "compute_80", {"f_vulkan_spirv_fb.fb": ""}, "compute_80 and has f_vulkan_spirv_fb.fb"),
        ("iree-cpu", "x86-64", {"module.fb": ""}, "was compiled for x86-64 and has no code at all"),
        ("iree-cpu", "x86-64", b"IREE", "made.vmfb is not an IREE module (File is not a zip file)"),
        ("ptx", "compute_75", b"not PTX", "was compiled for compute_75 and has no PTX"),
        ("spirv", "", b"", "a toolchain makes a module of the unknown kind 'spirv'"),
    ],
)  # fmt: skip
def test_what_is_not_of_its_target_is_refused(tmp_path, kind, arch, members, message):
    with pytest.raises(ActionError) as caught:
        images_of(compiled(tmp_path, kind, arch, members))  # type: ignore[arg-type]
    assert message in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].hint


def test_targets_of_iree():
    package = TOOLCHAIN.packaged
    assert package
    assert [t.built_for for t in package.targets([], "aarch64")] == [Arch(6, 0), None, CpuLevel()]
    for wrong, machine in (("compute_90", "x86_64"), ("x86-64-v3", "aarch64"), ("sm_80", "x86_64")):
        with pytest.raises(ValueError, match=f"^'{wrong}' is not one of compute_60, "):
            package.targets([wrong], machine)
    with pytest.raises(ValueError, match="this is riscv64"):
        package.targets([], "riscv64")


def test_a_flag_of_the_manifest_replaces_the_usual_one():
    """IREE's default makes doubles floats; a command with both options would be refused."""
    package = TOOLCHAIN.packaged
    assert package
    (target,) = package.targets(["compute_80"], "x86_64")
    assert "--iree-input-demote-f64-to-f32=false" in package.compile(target, "x86_64", [])
    words = package.compile(target, "x86_64", ["--iree-input-demote-f64-to-f32=true"])
    assert [w for w in words if "demote" in w] == ["--iree-input-demote-f64-to-f32=true"]
