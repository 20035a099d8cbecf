"""Which GPUs the device code of a file runs on, and the rules about it."""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import lz4.block
import pytest
from audit_samples import (
    CUDART,
    KERNEL,
    NVOMP,
    SET,
    STATIC_CUDART,
    elf,
    fatbin,
    grafted,
    image,
    user_of,
    wheel,
)
from plan_samples import WITH_CUDA
from promise_samples import BASE, PROMISES
from rule_cases.device import NV, REL, written_by

from gpuforge.audit import audit
from gpuforge.audit.reach import driver_of_container, reach
from gpuforge.audit.report import sentences
from gpuforge.audit.report.sentences import bullets, lines
from gpuforge.binary import fatbin as reader
from gpuforge.binary.facts import DeviceCode, FatbinContainer, FatbinEntry
from gpuforge.cuda.releases import generations
from gpuforge.errors import UsageError
from gpuforge.expectation import expecting
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan.expectation import expectation
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
def test_images_run_where_the_programming_guide_says(archs, native, jit):
    found = ways(code(archs))
    assert {c for c, way in found.items() if way == "native"} == native
    assert {c for c, way in found.items() if way == "jit"} == jit


def test_containers_are_judged_one_by_one():
    found = ways(code(("sm_80", "compute_80:8.4"), ("sm_90",)))
    assert (found["8.0"], found["9.0"], found["12.0"], found["7.0"]) == ("partly", "jit", "partly", "none")


def test_boards_with_arm_processors_are_asked_about_there_alone():
    assert {"8.7", "11.0", "12.1"} <= {g.capability for g in generations("aarch64")}
    assert not {"8.7", "11.0", "12.1"} & {g.capability for g in generations("x86_64")}
    assert ways(code(("sm_101",)), "aarch64")["11.0"] == "native"


def test_ptx_of_relocatable_code_counts_when_all_inputs_have_it():
    linked, whole, bare = (NV, "sm_80"), (REL, "sm_80", "compute_80:8.4"), (REL, "sm_80")
    assert ways(code(linked, whole, whole))["9.0"] == "jit"
    assert ways(code(linked, whole, bare))["9.0"] == "none"
    assert ways(code(bare))["8.0"] == "native"  # an object file that is still to be linked


def test_containers_without_a_kernel_are_left_out():
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
def test_what_has_no_kernel_is_not_asked_for_declared_code(text, codes, tmp_path):
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
def test_the_oldest_driver(archs, capability, driver):
    assert {r.generation.capability: r.driver for r in reach(code(archs))}[capability] == driver


def test_the_oldest_driver_of_code_that_is_packed_with_zstd():
    image = FatbinEntry("cubin", Arch.parse("sm_80"), "", 9000, 9000, "zstd", "12.9")
    assert driver_of_container([image]) == "550"
    assert driver_of_container([image._replace(compression="lz4")]) == "525.60.13"


@pytest.mark.parametrize(
    ("text", "cubins", "ptx"),
    [
        ("80,90a,120+ptx", ("sm_80", "sm_90a", "sm_120"), ("compute_120",)),
        (" sm_80 , ptx:90", ("sm_80",), ("compute_90",)),
    ],
)
def test_architectures_can_be_expected_without_a_manifest(text, cubins, ptx):
    found = expecting(text)
    assert tuple(arch.sm for arch in found.cubins) == cubins
    assert tuple(arch.compute for arch in found.ptx) == ptx


@pytest.mark.parametrize("text", ["", "eighty", "80 90", "ptx:80+ptx"])
def test_what_is_no_architecture_is_refused(text):
    with pytest.raises(UsageError, match="architecture"):
        expecting(text)


def test_many_files_alike_are_counted(tmp_path):
    files = {f"demo/cubins/k{number:02}.fatbin": fatbin("sm_100a") for number in range(20)}
    report = audit([wheel(tmp_path, {**files, "demo/x.fatbin": fatbin("sm_90a")})])
    (found,) = [f for f in report.findings if f.code == "GF404"]
    assert bullets(found) == (
        "only sm_100a: 20 files, such as k00.fatbin, k01.fatbin, k02.fatbin",
        "demo/x.fatbin: only sm_90a",
    )
    assert len(found.files) == 21


def test_a_cubin_that_was_not_looked_at_is_not_said_to_have_code(tmp_path):
    large = bytes(900_000)
    packed = lz4.block.compress(large, store_size=False)
    cubin = image("sm_80", size=len(large), content=packed, compressed=len(packed))
    entries = cubin + image("compute_80:8.4", size=64)
    one = b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(entries).to_bytes(8, "little") + entries
    report = audit([wheel(tmp_path, {"demo/ext.so": elf(sections={NV: one * 30})})])
    (found,) = [f for f in report.findings if f.code == "GF405"]
    assert bullets(found) == ("demo/ext.so: 18 of 30 containers",)


def test_what_is_proved_of_gpu_code_calls_each_kind_by_its_name(tmp_path):
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
def test_code_that_refuses_torch_of_another_cuda_release(text, own, of_torch, *, found, tmp_path):
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


# role = "gpu": the files that the project's own build compiles for GPUs are there, and have GPU code.


MANIFEST = (
    WITH_CUDA
    + """\
[[objects]]
name = "fast"
role = "gpu"
files = ["demo/_*cuda*.so", "demo/fast.so"]
"""
)
CODE = elf(sections={".nv_fatbin": fatbin("sm_80")})
FAST = "demo/fast.so"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"demo/_a_cuda.so": CODE, FAST: CODE, "demo/_a_cpu.so": elf()}, []),
        ({"demo/_a_cuda.so": CODE}, [("GF605", ("'demo/fast.so' of the object 'fast': no file",))]),
        (
            {"demo/_a_cuda.so": CODE, "demo/_b_cuda.so": elf(), FAST: CODE},
            [("GF605", ("'demo/_*cuda*.so' of the object 'fast': without GPU code: demo/_b_cuda.so",))],
        ),
        (  # the architectures of code that is there
            {"demo/_a_cuda.so": CODE, FAST: elf(sections={".nv_fatbin": fatbin("sm_90")})},
            [("GF401", ("demo/fast.so: sm_80: in no container",))],
        ),
    ],
)
def test_files_and_their_code(tmp_path, files, expected):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    report = audit([wheel(tmp_path, files)], expectation=expectation(load(tmp_path / "gpuforge.toml")))
    assert [(f.code, lines(f)) for f in report.findings if f.severity == "error"] == expected


# What the manifest promises of a wheel is judged: its GPU code, its objects, and that there is nothing else.


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[[str], ManifestFile]:
    from gpuforge.manifest.load import load

    def write(add: str = "") -> ManifestFile:
        (tmp_path / "gpuforge.toml").write_text(PROMISES + add)
        return load(tmp_path / "gpuforge.toml")

    return write


def judged(
    folder: Path, source: ManifestFile, change: Mapping[str, bytes | None]
) -> list[tuple[str, str, tuple[str, ...]]]:
    files = {name: data for name, data in {**BASE, **change}.items() if data is not None}
    report = audit([wheel(folder, files)], expectation=expectation(source))
    return [(f.code, f.severity, lines(f)) for f in report.findings if f.severity != "info"]


NV_FATBIN, RELFATBIN = ".nv_fatbin", "__nv_relfatbin"
_LINKED = image("sm_80", content=b"\x7fELF of no kernel")  # as `nvcc -shared` leaves it in host code
NO_KERNEL = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(_LINKED)) + _LINKED
PTX = b"// Generated by NVIDIA NVVM Compiler\n.version 8.7\n.target sm_75\n.address_size 64\n" + (
    b".visible .entry _Z6kernelPf(.param .u64 _Z6kernelPf_param_0)\n{\n\tret;\n}\n"
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        (
            {"demo/libcore.so": elf(sections={NV_FATBIN: fatbin("sm_80", "compute_90:8.7")})},
            [("GF601", "error", (
                "demo/libcore.so: GPU code for compute_90, sm_80",
                "demo/libcore.so: made by a CUDA compiler (section .nv_fatbin)",
            ))],
        ),
        (
            {"demo/libcore.so": elf(strings=["__pgi_bss_section_start"])},
            [("GF601", "error", (
                "demo/libcore.so: made by the NVIDIA HPC compilers (symbol __pgi_bss_section_start)",
            ))],
        ),
        (
            {"demo/ext.so": elf(sections={".rodata": STATIC_CUDART})},
            [("GF103", "error", ("demo/ext.so",))],  # linkage = "pip" is the default
        ),
        (  # a static library of NVIDIA has one inside
            {"demo.libs/libnvjpeg-0a1b2c3d.so.12": elf(sections={".rodata": STATIC_CUDART})}, []),
        (
            {"demo/libcore.so": elf(sections={".rodata": STATIC_CUDART})},
            [("GF601", "error", ("demo/libcore.so: a static libcudart",))],
        ),
        (
            {
                "demo/libcore.so": user_of(NVOMP), CUDART: grafted(CUDART),
                NVOMP: elf(soname="libnvomp-fb1a2b9f.so", needed=[Path(CUDART).name], runpath="$ORIGIN"),
            },
            [("GF601", "error", (
                "demo/libcore.so: needs libnvomp-fb1a2b9f.so, a runtime of nvhpc",
                "demo/libcore.so: needs libcudart-4554289f.so.13.0.96, through libnvomp-fb1a2b9f.so",
            ))],
        ),
        (
            {
                "demo/libcore.so": user_of("ops.so"),
                "demo.libs/ops.so": elf(soname="ops.so", sections={".rodata": STATIC_CUDART}),
            },
            [
                ("GF103", "error", ("demo.libs/ops.so",)),
                ("GF601", "error", ("demo/libcore.so: a static libcudart, through ops.so",)),
            ],
        ),
        (
            {"demo/libcore.so": None},
            [("GF602", "error", ("'demo/lib*.so' of the object 'core': no file",))],
        ),
        (
            {"demo/ext.so": elf(sections={NV_FATBIN: KERNEL + fatbin("sm_90", "compute_90:8.7")})},
            [
                ("GF401", "error", ("demo/ext.so: sm_80: in only 1 of 2 containers",)),
                ("GF409", "warning", ("demo/ext.so: sm_90: in 1 of 2 containers",)),
            ],
        ),
        (
            {"demo/ext.so": elf(sections={NV_FATBIN: fatbin("sm_80")})},
            [("GF402", "error", ("demo/ext.so: compute_90: PTX in no container",))],
        ),
        (  # relocatable device code: the PTX lies in the inputs of the device link
            {"demo/ext.so": elf(sections={NV_FATBIN: fatbin("sm_80"), RELFATBIN: KERNEL})}, []),
        (
            {"demo/ext.so": elf(sections={NV_FATBIN: fatbin("sm_80"), RELFATBIN: fatbin("sm_80")})},
            [("GF402", "error", ("demo/ext.so: compute_90: PTX in no container",))],
        ),
        (  # a grafted CUDA library has the architectures that NVIDIA chose
            {"demo.libs/libcufft-0a1b2c3d.so.12": elf(sections={NV_FATBIN: fatbin("sm_75")})}, []),
        (
            {f"{SET}index.json": None, f"{SET}k.fatbin": None},
            [("GF401", "error", ("the whole wheel",))],
        ),
        (  # nothing but the container that nvcc links of host code
            {f"{SET}index.json": None, f"{SET}k.fatbin": None, "demo/ext.so": elf(sections={NV_FATBIN: NO_KERNEL})},
            [("GF401", "error", ("the whole wheel",))],
        ),
        (  # PTX by itself is not what is declared
            {"demo/old.ptx": PTX},
            [
                ("GF401", "error", ("demo/old.ptx: sm_80: in no container",)),
                ("GF402", "error", ("demo/old.ptx: compute_90: PTX in no container",)),
                ("GF409", "warning", ("demo/old.ptx: compute_75: in 1 of 1 containers",)),
            ],
        ),
        (  # right, and more
            {"demo/ext.so": elf(sections={NV_FATBIN: fatbin("sm_80", "compute_80:8.7", "compute_90:8.7")})},
            [("GF409", "warning", ("demo/ext.so: compute_80: in 1 of 1 containers",))],
        ),
    ],
)  # fmt: skip
def test_the_manifests_promises_are_judged(tmp_path, manifest, change, expected):
    assert judged(tmp_path, manifest(""), change) == expected


def test_as_declared_is_said_of_nothing_more_and_nothing_less(tmp_path, manifest):
    def proved(*containers: bytes) -> list[str]:
        files = {**BASE, "demo/ext.so": elf(sections={NV_FATBIN: b"".join(containers)})}
        report = audit([wheel(tmp_path, files)], expectation=expectation(manifest("")))
        return [p.text for w in report.wheels for p in w.proofs if p.topic == "GPU code"]

    (text,) = proved(KERNEL)
    assert text.startswith("fatbin containers as declared: ")
    (text,) = proved(KERNEL, fatbin("sm_80", "compute_80:8.7", "compute_90:8.7"))
    assert text.startswith("fatbin containers: ")
    (text,) = proved(fatbin("compute_75:8.7"))
    assert text.startswith("fatbin containers: ")


NO_CODE = PROMISES.replace('archs = ["80"]\nptx = "90"', "archs = []")


def test_a_package_without_gpu_code_says_so_and_is_held_to_it(tmp_path):
    from gpuforge.manifest.load import load

    (tmp_path / "gpuforge.toml").write_text(NO_CODE)
    source = load(tmp_path / "gpuforge.toml")
    bare = {f"{SET}index.json": None, f"{SET}k.fatbin": None}
    assert judged(tmp_path, source, bare) == []
    assert judged(tmp_path, source, bare | {"demo/ext.so": elf(sections={NV_FATBIN: NO_KERNEL})}) == []
    grafted_cufft = {"demo.libs/libcufft-0a1b2c3d.so.12": elf(sections={NV_FATBIN: fatbin("sm_75")})}
    assert judged(tmp_path, source, bare | grafted_cufft) == []
    found = judged(tmp_path, source, bare | {"demo/ext.so": elf(sections={NV_FATBIN: fatbin("sm_80")})})
    assert ("GF409", "error", ("demo/ext.so: sm_80: in 1 of 1 containers",)) in found


@pytest.mark.parametrize(
    ("python", "tags", "codes"),
    [
        ('python = ["3.11"]', "py3-none-any", ["GF509"]),
        ('python = ["3.11"]', "py2.py3-none-any", ["GF509"]),
        ('python = ["3.11"]', "cp311-cp311-manylinux_2_17_x86_64", []),
        ('python = ["3.11"]', "py3-none-manylinux_2_17_x86_64", []),
        ('abi = "none"', "py3-none-any", []),
    ],
)
def test_a_wheel_that_lost_its_extension_modules(tmp_path, python, tags, codes):
    from gpuforge.manifest.load import load

    text = NO_CODE.partition("[[objects]]")[0].replace('python = ["3.11"]', python)
    (tmp_path / "gpuforge.toml").write_text(text)
    path = wheel(tmp_path, {"demo/__init__.py": b""}, name=f"demo-1.0-{tags}.whl")
    report = audit([path], expectation=expectation(load(tmp_path / "gpuforge.toml")))
    assert [f.code for f in report.findings if f.severity != "info"] == codes


@pytest.mark.parametrize("linkage", ["system", "pip"])
def test_cuda_of_the_machine_is_no_finding_by_a_manifest_that_says_so(tmp_path, manifest, linkage):
    source = manifest(f'[cuda]\nlinkage = "{linkage}"\n')
    change = {"demo/ext.so": elf(sections={NV_FATBIN: KERNEL}, needed=["libcudart.so.13", "libnuma.so.1"])}
    numa = ("GF201", "warning", ("libnuma.so.1, NEEDED by demo/ext.so",))
    cudart = ("GF201", "error", ("libcudart.so.13 (nvidia-cuda-runtime), NEEDED by demo/ext.so",))
    assert judged(tmp_path, source, change) == ([numa] if linkage == "system" else [cudart, numa])


@pytest.mark.parametrize("linkage", ["system", "pip"])
def test_cuda_of_the_machine_may_be_opened_by_python_code(tmp_path, manifest, linkage):
    source = manifest(f'[cuda]\nlinkage = "{linkage}"\n')
    change = {
        "demo/ext.so": elf(sections={NV_FATBIN: KERNEL}, needed=["libcudart.so.13", "libcublas.so.13"]),
        "demo/a.py": b"CDLL(os.path.join(ROOT, 'libcudart.so.13'))\n",
    }
    lost = (
        "libcublas.so.13 (nvidia-cublas), NEEDED by demo/ext.so",
        "libcudart.so.13 (nvidia-cuda-runtime, demo/a.py opens it if it finds it), NEEDED by demo/ext.so",
    )
    assert judged(tmp_path, source, change) == ([] if linkage == "system" else [("GF201", "error", lost)])


def test_objects_of_the_manifest_must_be_in_the_wheel(tmp_path, manifest):
    add = """
[[objects]]
name = "fast"
role = "fallback"
sources = ["k.cu"]
toolchain = "device"
[[objects]]
name = "mech"
role = "user-compiled"
sources = ["m.cpp"]
toolchains = ["device"]
"""
    (tmp_path / "k.cu").write_text("")
    (tmp_path / "m.cpp").write_text("")
    found = judged(tmp_path, manifest(add), {})
    assert found == [
        ("GF701", "error", ("the fallback object 'fast' of the manifest is not in the wheel",)),
        ("GF702", "error", ("the user-compiled object 'mech' of the manifest is not in the wheel",)),
    ]
