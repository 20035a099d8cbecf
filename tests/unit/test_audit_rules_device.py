"""Which GPUs the device code of a file runs on, and the rules about it."""

from __future__ import annotations

import struct
from pathlib import Path

import lz4.block
import pytest
from audit_samples import elf, fatbin, image, wheel
from rule_cases.device import NV, REL, written_by

from gpuforge.audit import audit
from gpuforge.audit.expected_archs import expecting
from gpuforge.audit.reach import reach
from gpuforge.audit.report import sentences
from gpuforge.audit.report.sentences import bullets
from gpuforge.binary import fatbin as reader
from gpuforge.binary.facts import DeviceCode, FatbinContainer, FatbinEntry
from gpuforge.cuda.releases import generations
from gpuforge.errors import UsageError
from gpuforge.runtime.arch import Arch


def code(*containers: tuple[str, ...]) -> DeviceCode:
    """Device code with these containers; the first word of each may be a section."""
    held = []
    for archs in containers:
        section = archs[0] if archs[0] in (NV, REL) else NV
        (found,) = reader.scan(fatbin(*(a for a in archs if a not in (NV, REL))))
        held.append(FatbinContainer(0, found.size, found.entries, section))
    return DeviceCode("x.so", tuple(held))


def ways(found: DeviceCode, machine: str = "x86_64") -> dict[str, str]:
    return {r.generation.capability: r.way for r in reach(found, machine)}


@pytest.mark.parametrize(
    ("archs", "native", "jit"),
    [
        (("sm_80",), {"8.0", "8.6", "8.9"}, set()),
        (("sm_86",), {"8.6", "8.9"}, set()),
        (("sm_90a",), {"9.0"}, set()),
        (("sm_100a",), {"10.0"}, set()),
        (("sm_100f",), {"10.0", "10.3"}, set()),
        (("sm_90", "compute_90:8.4"), {"9.0"}, {"10.0", "10.3", "12.0"}),
        (("sm_90a", "compute_90a:8.4"), {"9.0"}, set()),
        (("compute_100f:8.8",), set(), {"10.0", "10.3"}),
        (("sm_50", "compute_120:8.8"), {"5.0", "5.2"}, {"12.0"}),
    ],
)  # fmt: skip
def test_images_run_where_the_programming_guide_says(
    archs: tuple[str, ...], native: set[str], jit: set[str]
) -> None:
    found = ways(code(archs))
    assert {c for c, way in found.items() if way == "native"} == native
    assert {c for c, way in found.items() if way == "jit"} == jit


def test_containers_are_judged_one_by_one() -> None:
    found = ways(code(("sm_80", "compute_80:8.4"), ("sm_90",)))
    assert (found["8.0"], found["9.0"], found["12.0"], found["7.0"]) == ("partly", "jit", "partly", "none")


def test_boards_with_arm_processors_are_asked_about_there_alone() -> None:
    assert {"8.7", "11.0", "12.1"} <= {g.capability for g in generations("aarch64")}
    assert not {"8.7", "11.0", "12.1"} & {g.capability for g in generations("x86_64")}
    assert ways(code(("sm_101",)), "aarch64")["11.0"] == "native"


def test_ptx_of_relocatable_code_counts_when_all_inputs_have_it() -> None:
    linked, whole, bare = (NV, "sm_80"), (REL, "sm_80", "compute_80:8.4"), (REL, "sm_80")
    assert ways(code(linked, whole, whole))["9.0"] == "jit"
    assert ways(code(linked, whole, bare))["9.0"] == "none"
    assert ways(code(bare))["8.0"] == "native"  # an object file that is still to be linked


def test_containers_without_a_kernel_are_left_out() -> None:
    empty = (
        FatbinEntry("ptx", Arch.parse("compute_80"), "8.4", 60, 60),
        FatbinEntry("cubin", Arch.parse("sm_75"), "", 9000, 9000),
    )
    no_code = FatbinContainer(0, 1, empty, empty=True)
    lto = FatbinContainer(0, 1, (FatbinEntry("lto-ir", Arch.parse("compute_75"), "", 9000, 9000),))
    assert ways(DeviceCode("x.so", (no_code, lto, *code(("sm_80",)).containers)))["8.0"] == "native"


def packed(*images: bytes) -> bytes:
    """A library with a container of these images beside the one that `nvcc -shared` links of nothing."""
    linked = image("sm_80", content=b"\x7fELF of no kernel")
    held = (linked, b"".join(images))
    containers = (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries for entries in held)
    return elf(sections={".nv_fatbin": b"".join(containers)})


@pytest.mark.parametrize(
    ("text", "codes"), [("80+ptx", []), ("80,90+ptx", ["GF401", "GF402"]), ("ptx:90", ["GF402"])]
)
def test_what_has_no_kernel_is_not_asked_for_declared_code(
    text: str, codes: list[str], tmp_path: Path
) -> None:
    kernel = image("sm_80", content=b"\x7fELF\0.text.kernel")
    path = wheel(tmp_path, {"demo/x.so": packed(kernel, image("compute_80:9.0"))})
    assert [
        f.code for f in audit([path], expectation=expecting(text)).findings if f.severity == "error"
    ] == codes


@pytest.mark.parametrize(
    ("archs", "capability", "driver"),
    [
        (("sm_80", "compute_80:8.4"), "8.0", "525.60.13"),
        (("sm_80", "compute_80:8.4"), "9.0", "550.54.14"),
        (("sm_80", "compute_80:7.5"), "8.0", "450.80.02"),
        (("sm_80", "compute_80:9.0"), "9.0", "580.65.06"),
        (("sm_70", "compute_70:6.3"), "7.0", "410.48"),  # before 11 cubins are bound to their toolkit's driver, too
        (("sm_80", "compute_80:7.1"), "8.0", "450.80.02"),
        (("sm_80", "compute_80:7.1"), "8.6", "450.80.02"),
        (("compute_80:7.1",), "8.6", "455.23"),
        (("sm_80", "compute_80:7.1"), "9.0", "520.61.05"),  # no older driver knows the GPU
        (("sm_80", "compute_80:7.1"), "12.0", "570.26"),
        (("sm_80", "compute_80:8.8"), "12.0", "575.51.03"),
        (("sm_80",), "8.0", ""),
        (("compute_80:99.9",), "8.0", ""),
    ],
)  # fmt: skip
def test_the_oldest_driver(archs: tuple[str, ...], capability: str, driver: str) -> None:
    assert {r.generation.capability: r.driver for r in reach(code(archs))}[capability] == driver


@pytest.mark.parametrize(
    ("text", "cubins", "ptx"),
    [
        ("80,90a,120+ptx", ("sm_80", "sm_90a", "sm_120"), ("compute_120",)),
        (" sm_80 , ptx:90", ("sm_80",), ("compute_90",)),
    ],
)
def test_architectures_can_be_expected_without_a_manifest(
    text: str, cubins: tuple[str, ...], ptx: tuple[str, ...]
) -> None:
    found = expecting(text)
    assert tuple(arch.sm for arch in found.cubins) == cubins
    assert tuple(arch.compute for arch in found.ptx) == ptx


@pytest.mark.parametrize("text", ["", "eighty", "80 90", "ptx:80+ptx"])
def test_what_is_no_architecture_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="architecture"):
        expecting(text)


def test_many_files_alike_are_counted(tmp_path: Path) -> None:
    files = {f"demo/cubins/k{number:02}.fatbin": fatbin("sm_100a") for number in range(20)}
    report = audit([wheel(tmp_path, {**files, "demo/x.fatbin": fatbin("sm_90a")})])
    (found,) = [f for f in report.findings if f.code == "GF404"]
    assert bullets(found) == (
        "only sm_100a: 20 files, such as k00.fatbin, k01.fatbin, k02.fatbin",
        "demo/x.fatbin: only sm_90a",
    )
    assert len(found.files) == 21


def test_a_cubin_that_was_not_looked_at_is_not_said_to_have_code(tmp_path: Path) -> None:
    large = bytes(900_000)
    packed = lz4.block.compress(large, store_size=False)
    cubin = image("sm_80", size=len(large), content=packed, compressed=len(packed))
    entries = cubin + image("compute_80:8.4", size=64)
    one = b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(entries).to_bytes(8, "little") + entries
    report = audit([wheel(tmp_path, {"demo/ext.so": elf(sections={NV: one * 30})})])
    (found,) = [f for f in report.findings if f.code == "GF405"]
    assert bullets(found) == ("demo/ext.so: 18 of 30 containers",)


def test_what_is_proved_of_gpu_code_calls_each_kind_by_its_name(tmp_path: Path) -> None:
    ptx = b".version 8.4\n.target sm_80\n.address_size 64\n" + bytes(200)
    held = image("sm_80", size=900)
    lto = bytearray(held)
    lto[0] = 8
    only = b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(lto).to_bytes(8, "little") + bytes(lto)
    files = {
        "demo/ext.so": elf(sections={NV: fatbin("sm_80", "compute_90:8.4") + fatbin("sm_80") + only}),
        "demo/k.ptx": ptx,
        "demo/_gpuforge/kernels/k/k.so": elf(sections={".rodata": b"\0" + ptx}),
    }
    (report,) = audit([wheel(tmp_path, files)]).wheels
    assert [p.text for p in report.proofs if p.topic == "GPU code"] == [
        "fatbin containers: 1 of sm_80 + compute_90 (PTX 8.4); 1 of sm_80, no PTX; 1 of LTO-IR of compute_80",
        "PTX texts: 2 of compute_80 (PTX 8.4)",
    ]


CHECK = b"""
def check():
    own = str(torch.ops._demo.cuda_version())
    of_torch = torch.version.cuda
    if own != of_torch:
        raise RuntimeError(f"{own} {of_torch}")


torch.ops.load_library(path)
check()
"""


@pytest.mark.parametrize(
    ("text", "own", "of_torch", "found"),
    [
        (CHECK, "13.0", "13.2", True),
        (CHECK, "13.2", "13.2", False),
        (CHECK, "13.0", None, False),  # torch for the CPU
        (CHECK.replace(b"raise RuntimeError", b"warn"), "13.0", "13.2", False),
        (CHECK.replace(b"!= of_torch", b"!= '11.8'"), "13.0", "13.2", False),
        (CHECK.replace(b"torch.version.cuda", b"torch.version.hip"), "13.0", "13.2", False),
    ],
)
def test_code_that_refuses_torch_of_another_cuda_release(
    text: bytes, own: str, of_torch: str | None, *, found: bool, tmp_path: Path
) -> None:
    one = wheel(tmp_path, {"demo/ext.so": written_by(own), "demo/__init__.py": text})
    version = f"cuda: Optional[str] = {of_torch!r}\n".encode()
    torch = wheel(
        tmp_path,
        {"torch/version.py": version, "torch/_C.so": elf()},
        name="torch-2.15.0-py3-none-linux_x86_64.whl",
    )
    report = audit([one, torch])
    met = [f for f in report.findings if f.code == "GF710"]
    assert [(f.wheel, f.severity, f.across, sentences.detail(f.subjects[0])) for f in met] == (
        [(one.name, "error", True, "built with CUDA 13.0; torch 2.15.0 was built with CUDA 13.2")]
        if found
        else []
    )
