"""Each rule: a wheel that it must speak of, and the nearest one that it must not."""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from audit_cases import Case, findings
from audit_samples import EXEC_STACK, STATIC_CUDART, elf, fatbin, image, wheel

from gpuforge.audit import audit
from gpuforge.audit.host_files import matches
from gpuforge.audit.judge import Ignore
from gpuforge.audit.report import proofs
from gpuforge.audit.report.sentences import lines
from gpuforge.audit.rules import RULES
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.expectation import expectation

DOCS = Path(__file__).parents[2] / "docs" / "findings"
NVOMP = "demo.libs/libnvomp-fb1a2b9f.so"
CUDART = "demo.libs/libcudart-4554289f.so.13.0.96"
GOMP = "demo.libs/libgomp-a34b3233.so.1.0.0"
CU13 = "$ORIGIN/../nvidia/cu13/lib"
LIBS = "$ORIGIN/../demo.libs"


def grafted(path: str) -> bytes:
    return elf(soname=path.rpartition("/")[2])


def user_of(*paths: str, **keys: object) -> bytes:
    return elf(needed=[path.rpartition("/")[2] for path in paths], runpath=LIBS, **keys)  # type: ignore[arg-type]


KERNEL = fatbin("sm_80", "compute_90:8.7")


def index(**change: object) -> bytes:
    module = {
        "name": "k", "source": "k.cu", "file": "k.fatbin", "sha256": sha256(KERNEL).hexdigest(),
        "images": [{"kind": "cubin", "arch": "sm_80"}, {"kind": "ptx", "arch": "compute_90", "isa": "8.7"}],
    }  # fmt: skip
    return json.dumps({"schema": 1, "name": "k", "modules": [module | change]}).encode()


VMFB = b"IREE\0//\n.version 7.6\n.target sm_80\n.visible .entry k() { ret; }\0more"


def for_iree(arch: str) -> bytes:
    image = {"kind": "iree-cuda", "arch": arch, "isa": "7.6"}
    return index(file="k.vmfb", sha256=sha256(VMFB).hexdigest(), images=[image])


LIBRARY = elf()


def library_index(abi: str) -> bytes:
    library = {
        "file": "libk.so", "sha256": sha256(LIBRARY).hexdigest(), "images": [{"kind": "library", "arch": ""}],
    }  # fmt: skip
    return json.dumps({"schema": 1, "kind": "library", "abi": abi, "libraries": [library]}).encode()


def recipe(**change: object) -> bytes:
    source = {"file": "a.cpp", "sha256": sha256(b"// a\n").hexdigest()}
    held = {"schema": 1, "sources": [source], "includes": [], "toolchains": [{"name": "host"}]}
    return json.dumps(held | change).encode()


SET = "demo/_gpuforge/kernels/k/"
SOURCES = "demo/_gpuforge/sources/m/"


CASES = {
    "hashed runtime beside an archive": Case(
        "GF101", "error", ("libnvomp-fb1a2b9f.so (NVIDIA HPC SDK), loaded by libcore.so, ext.so; "
            "libnvomp.so comes beside it in a link with libcore.so",),
        {
            NVOMP: grafted(NVOMP), "demo/libcore.so": user_of(NVOMP), "demo/ext.so": user_of(NVOMP),
            "demo/x.a": b"!<arch>\n",
        },
        {"demo/x.a": None},
    ),
    "hashed cudart beside a makefile": Case(
        "GF101", "error", ("libcudart-4554289f.so.13.0.96 (CUDA runtime), loaded by ext.so",),
        {CUDART: grafted(CUDART), "demo/ext.so": user_of(CUDART), "demo/nrnmech_makefile": b"all:\n"},
        {"demo/nrnmech_makefile": None},
    ),
    "hashed OpenMP is milder": Case(
        "GF101", "warning", ("libgomp-a34b3233.so.1.0.0 (OpenMP of GCC), loaded by ext.so",),
        {GOMP: grafted(GOMP), "demo/ext.so": user_of(GOMP), "demo/demoConfig.cmake": b"\n"},
        {"demo/demoConfig.cmake": None},
    ),
    "hashed OpenMP beside a left-over archive": Case(
        "GF101", "info", ("libgomp-a34b3233.so.1.0.0 (OpenMP of GCC), loaded by ext.so",),
        {GOMP: grafted(GOMP), "demo/ext.so": user_of(GOMP), "demo/libdemo.a": b"!<arch>\n"},
        {"demo/libdemo.a": None},
    ),
    "grafted and torch's cudart": Case(
        "GF102", "error",
        (
            "demo.libs/libcudart-4554289f.so.13.0.96, loaded by demo/ext.so",
            "libcudart.so.13 (nvidia-cuda-runtime), loaded by import torch",
        ),
        {CUDART: grafted(CUDART), "demo/ext.so": elf(needed=[Path(CUDART).name, "libtorch.so"], runpath=LIBS)},
        {"demo/ext.so": user_of(CUDART)},
        requires=["torch>=2.12"],
    ),
    "nobody provides": Case(
        "GF201", "error", ("libcudart.so.12 (nvidia-cuda-runtime-cu12), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcudart.so.12"])},
        {"demo/ext.so": elf()},
    ),
    "nobody provides, and nothing is required": Case(
        "GF201", "error",
        (
            "libc10.so (torch), NEEDED by demo/ext.so", "libc10_cuda.so (torch), NEEDED by demo/ext.so",
            "libnvrtc.so.12 (nvidia-cuda-nvrtc-cu12, torch brings nvidia-cuda-nvrtc), NEEDED by demo/ext.so",
            "libcudart.so.12 (nvidia-cuda-runtime-cu12, demo/a.py opens it where it finds it), NEEDED by demo/ext.so",
        ),
        {
            "demo/ext.so": elf(needed=["libc10.so", "libc10_cuda.so", "libnvrtc.so.12", "libcudart.so.12"]),
            "demo/a.py": b"CDLL(os.path.join(ROOT, 'libcudart.so.12'))\n",
        },
        {"demo/ext.so": elf()},
    ),
    "a library of the machine": Case(
        "GF201", "warning", ("libnuma.so.1, NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libnuma.so.1"])},
        {"demo/ext.so": elf(needed=["libz.so.1", "libGL.so.1", "ld-linux-x86-64.so.2"])},
    ),
    "a CUDA library that no package has": Case(
        "GF201", "error", ("libcudart.so.10.1, NEEDED by demo/ext.so", "libcudnn.so.7, NEEDED by demo/ext.so"),
        {"demo/ext.so": elf(needed=["libcudart.so.10.1", "libcudnn.so.7"])},
        {"demo/ext.so": elf(needed=["libcudnn.so.7"], runpath="$ORIGIN"), "demo/libcudnn.so.7": elf()},
    ),
    "declared and not reachable": Case(
        "GF202", "error", ("libcudart.so.13 (nvidia-cuda-runtime), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcudart.so.13"])},
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)},
        requires=["nvidia-cuda-runtime>=13,<14"],
    ),
    "inside and not reachable": Case(
        "GF202", "error", ("libx.so (demo/lib/libx.so), NEEDED by demo/ext.so",),
        {"demo/lib/libx.so": elf(soname="libx.so"), "demo/ext.so": elf(needed=["libx.so"])},
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/lib")},
    ),
    "inside, and another object has it loaded": Case(
        "GF202", "warning", ("libx.so (demo/lib/libx.so), NEEDED by demo/plugin.so",),
        {
            "demo/lib/libx.so": elf(soname="libx.so"), "demo/plugin.so": elf(needed=["libx.so"]),
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/lib"),
        },
        {"demo/plugin.so": elf(needed=["libx.so"], runpath="$ORIGIN/lib")},
    ),
    "reachable and not declared": Case(
        "GF203", "error", (
            "demo/ext.so: libcudart.so.13 (nvidia-cuda-runtime, by RUNPATH $ORIGIN/../nvidia/cu13/lib)",
        ),
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)},
        {"demo/ext.so": elf(runpath=CU13)},
    ),
    "torch of another major": Case(
        "GF204", "error", ("libcudart.so.12 ('torch>=2.10' brings nvidia-cuda-runtime), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcudart.so.12"])},
        {"demo/ext.so": elf(needed=["libcudart.so.13"])},
        requires=["torch>=2.10"],
    ),
    "loaded by Python": Case(
        "GF205", "info", ("libcublas.so.12 (nvidia-cublas-cu12, in the extra [ctk]), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcublas.so.12"]), "demo/a.py": b"load_nvidia_dynamic_lib('cublas')\n"},
        {"demo/ext.so": elf(needed=["libcublas.so.12"], runpath="$ORIGIN/../nvidia/cublas/lib")},
        requires=["nvidia-cublas-cu12; extra == 'ctk'"],
    ),
    "loaded by Python from wherever": Case(
        "GF205", "warning", ("libcublas.so.12 (declared by no requirement), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcublas.so.12"]), "demo/a.py": b"CDLL(find('cublas'))\n"},
        {"demo/a.py": b"CDLL(find('cufft'))\n"},
    ),
    "loaded by Python that users have to call": Case(
        "GF205", "warning", ("libcublas.so.12 (nvidia-cublas-cu12), NEEDED by demo/ext.so",),
        {
            "demo/ext.so": elf(needed=["libcublas.so.12"]),
            "demo/a.py": b"def preload():\n    CDLL(os.path.join(ROOT, 'libcublas.so.12'))\n",
        },
        {"demo/ext.so": elf(needed=["libcublas.so.12"], runpath="$ORIGIN/../nvidia/cublas/lib")},
        requires=["nvidia-cublas-cu12"],
    ),
    "inside, and imported by Python": Case(
        "GF202", "warning", ("libx.so (demo/libx.so), NEEDED by demo/plugins/p.so",),
        {"demo/libx.so": elf(strings=["PyInit_libx"]), "demo/plugins/p.so": elf(needed=["libx.so"])},
        {"demo/plugins/p.so": elf(needed=["libx.so"], runpath="$ORIGIN/..")},
    ),
    "one of several variants, and none fits": Case(
        "GF204", "error", ("libcublas.so.11 ('torch' brings nvidia-cublas), NEEDED by demo/libx_cuda118.so",),
        {"demo/libx_cuda118.so": elf(needed=["libcublas.so.11"])},
        {"demo/libx_cuda130.so": elf(needed=["libcublas.so.13"])},
        requires=["torch"],
    ),
    "a relative search path": Case(
        "GF301", "error", ("demo/ext.so",),
        {"demo/ext.so": elf(rpath="demo.libs:$ORIGIN/x")},
        {"demo/ext.so": elf(rpath="${ORIGIN}/x")},
    ),
    "an empty search path entry": Case(
        "GF301", "error", ("demo/ext.so",),
        {"demo/ext.so": elf(runpath="$ORIGIN:")},
        {"demo/ext.so": elf(runpath="")},
    ),
    "the build machine's folder, and something is lost": Case(
        "GF302", "error", ("demo/ext.so: RPATH /build/lib: it needs libc10.so",),
        {"demo/ext.so": elf(rpath="/build/lib", needed=["libc10.so"])},
        {"demo/ext.so": elf(rpath="$ORIGIN", needed=["libc10.so"])},
        requires=["torch"],
    ),
    "the build machine's folder, dead": Case(
        "GF302", "warning", ("demo/ext.so: RUNPATH /build/lib",),
        {"demo/ext.so": elf(runpath="/build/lib")},
        {"demo/ext.so": elf(runpath="$ORIGIN")},
    ),
    "a higher symbol version than the tag": Case(
        "GF501", "error", ("demo/ext.so: wants GLIBC_2.28, GLIBCXX_3.4.21",),
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.28", "GLIBC_2.4"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.17"], "libx.so.1": ["GLIBC_2.99", "OMP_9"]})},
    ),
    "another machine": Case(
        "GF501", "error", ("demo/ext.so: is for aarch64",),
        {"demo/ext.so": elf(machine=183)}, {"demo/ext.so": elf()},
    ),
    "a wheel for anywhere": Case(
        "GF501", "error", ("demo/ext.so: is for x86_64",),
        {"demo/ext.so": elf()}, {"demo/ext.so": None}, name="demo-1.0-py3-none-any.whl",
    ),
    "a wheel for anywhere that has something for others too": Case(
        "GF501", "warning", ("demo/ext.so: is for x86_64",),
        {"demo/ext.so": elf(), "demo/macos/tool": b"\xcf\xfa\xed\xfe", "demo/windows/a.py": b"\n"},
        {"demo/ext.so": None}, name="demo-1.0-py3-none-any.whl",
    ),
    "symbols that glibc keeps for itself": Case(
        "GF501", "warning", ("demo/ext.so",),
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_PRIVATE", "GLIBC_2.17"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.17"]})},
    ),
    "a folder that everybody can make": Case(
        "GF302", "error", ("demo/ext.so: RUNPATH /tmp/build/lib",),
        {"demo/ext.so": elf(runpath="$ORIGIN:/tmp/build/lib")},
        {"demo/ext.so": elf(runpath="$ORIGIN")},
    ),
    "tags that disagree": Case(
        "GF502", "warning",
        ("cp311-cp311-manylinux_2_17_x86_64: in the file name only", "cp311-cp311-linux_x86_64: in WHEEL only"),
        {"demo/ext.so": elf()}, {}, tags=["cp311-cp311-linux_x86_64"],
    ),
    "an executable stack": Case(
        "GF503", "error", ("demo/ext.so",),
        {"demo/ext.so": elf(stack=EXEC_STACK)}, {"demo/ext.so": elf()},
    ),
    "a kernel set with another file": Case(
        "GF701", "error", (f"{SET}k.fatbin: its sha256 is not the one in the index",),
        {f"{SET}index.json": index(), f"{SET}k.fatbin": fatbin("sm_80")}, {f"{SET}k.fatbin": KERNEL},
    ),
    "a module of IREE's with PTX for another GPU": Case(
        "GF701", "error",
        (
            f"{SET}k.vmfb: the index lists ptx compute_60, which is not in it",
            f"{SET}k.vmfb: it has ptx compute_80, which the index does not list",
        ),
        {f"{SET}index.json": for_iree("compute_60"), f"{SET}k.vmfb": VMFB},
        {f"{SET}index.json": for_iree("compute_80")},
    ),
    "a kernel set without an image": Case(
        "GF701", "error",
        (
            f"{SET}k.fatbin: the index lists cubin sm_90, which is not in it",
            f"{SET}k.fatbin: it has cubin sm_80, which the index does not list",
        ),
        {
            f"{SET}index.json": index(
                images=[{"kind": "cubin", "arch": "sm_90"}, {"kind": "ptx", "arch": "compute_90"}]
            ),
            f"{SET}k.fatbin": KERNEL,
        },
        {f"{SET}index.json": index()},
    ),
    "a kernel set with a file too many": Case(
        "GF701", "error", (f"{SET}old.fatbin: it is in the folder and not in the index",),
        {f"{SET}index.json": index(), f"{SET}k.fatbin": KERNEL, f"{SET}old.fatbin": KERNEL}, {f"{SET}old.fatbin": None},
    ),
    "an index that is none": Case(
        "GF701", "error", (f"{SET}index.json: it is not an index of schema 1 with modules",),
        {f"{SET}index.json": b'{"schema": 9}', f"{SET}k.fatbin": KERNEL}, {f"{SET}index.json": index()},
    ),
    "sources whose fallback is not there": Case(
        "GF701", "error", (f"{SOURCES}recipe.json: its fallback 'k' is not in the wheel",),
        {f"{SOURCES}recipe.json": recipe(fallbacks=["k"]), f"{SOURCES}a.cpp": b"// a\n"},
        {f"{SET}index.json": index(), f"{SET}k.fatbin": KERNEL},
    ),
    "a fallback library with another ABI": Case(
        "GF701", "error", (f"{SOURCES}recipe.json: it has the ABI 1-0a, and its fallback 'k' 2-0b",),
        {
            f"{SOURCES}recipe.json": recipe(fallbacks=["k"], abi="1-0a"), f"{SOURCES}a.cpp": b"// a\n",
            f"{SET}index.json": library_index("2-0b"), f"{SET}libk.so": LIBRARY,
        },
        {f"{SET}index.json": library_index("1-0a")},
    ),
    "sources that changed": Case(
        "GF702", "error", (f"{SOURCES}recipe.json: the sha256 of a.cpp is not the one in the recipe",),
        {f"{SOURCES}recipe.json": recipe(), f"{SOURCES}a.cpp": b"// b\n"}, {f"{SOURCES}a.cpp": b"// a\n"},
    ),
    "sources that are not there": Case(
        "GF702", "error", (f"{SOURCES}recipe.json: a.cpp is not in the wheel",),
        {f"{SOURCES}recipe.json": recipe()}, {f"{SOURCES}a.cpp": b"// a\n"},
    ),
    "a file that RECORD does not list": Case(
        "GF703", "warning", ("demo/ext.so: not in RECORD", "demo/gone.py: in RECORD and not in the wheel"),
        {"demo/ext.so": elf()}, {},
        record={"demo/ext.so": "", "demo/gone.py": "demo/gone.py,sha256=x,3"},
    ),
    "a requirement that is none": Case(
        "GF704", "error",
        ("Requires-Dist: numpy >>1: Expected semicolon (after name with no version specifier) or end",),
        {"demo/ext.so": elf()}, {}, requires=["numpy >>1"],
    ),
    "a damaged binary": Case(
        "GF705", "warning", ("demo/ext.so: it ends at byte 30, before 64",),
        {"demo/ext.so": elf()[:30]}, {"demo/ext.so": elf()},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_rule_speaks_where_it_must_and_nowhere_else(tmp_path: Path, case: Case) -> None:
    (found,) = findings(case, case.files, tmp_path)
    assert (found.severity, lines(found)) == (case.severity, case.subject)
    assert all(file in case.files or file == "demo/gone.py" for file in found.files)
    assert findings(case, {**case.files, **case.but}, tmp_path, fixed=True) == []


def test_every_rule_is_listed_once_with_its_page() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes)), "list each rule once in RULES, in the order of the codes"
    pages = {page.stem for page in DOCS.glob("GF*.md")}
    missing = [f"docs/findings/{code}.md" for code in codes if code not in pages]
    assert not missing, f"write {', '.join(missing)}"
    unlisted = sorted(pages - set(codes))
    assert not unlisted, f"no rule in RULES has the code of these pages: {', '.join(unlisted)}"
    for rule in RULES:
        text = (DOCS / f"{rule.code}.md").read_text()
        assert text.startswith(f"# {rule.code}: {rule.title}\n"), rule.code
        assert rule.code in (DOCS / "README.md").read_text()


def test_no_rule_imports_another() -> None:
    """What several rules need lies in a module of its own beside them."""
    modules = {rule.check.__module__ for rule in RULES}
    for module in modules:
        text = Path(str(sys.modules[module].__file__)).read_text()
        assert modules.isdisjoint(re.findall(r"^from (\S+) import", text, re.MULTILINE)), module


BASE = {"demo/libcore.so": elf(), "demo/ext.so": elf(), f"{SET}index.json": index(), f"{SET}k.fatbin": KERNEL}
PROMISES = """
schema = 1
[package]
name = "demo"
python = ["3.11"]
[toolchains.device]
compiler = "nvcc"
[cuda.13]
toolkit = "13.0"
archs = ["80"]
ptx = "90"
[[objects]]
name = "core"
role = "host-only"
files = ["demo/lib*.so"]
"""


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
            [("GF601", "error", ("demo/libcore.so: a static libcudart, through ops.so",))],
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
def test_the_manifests_promises_are_judged(
    tmp_path: Path,
    manifest: Callable[[str], ManifestFile],
    change: Mapping[str, bytes | None],
    expected: list[object],
) -> None:
    assert judged(tmp_path, manifest(""), change) == expected


def test_as_declared_is_said_of_nothing_more_and_nothing_less(
    tmp_path: Path, manifest: Callable[[str], ManifestFile]
) -> None:
    def proved(*containers: bytes) -> list[str]:
        files = {**BASE, "demo/ext.so": elf(sections={NV_FATBIN: b"".join(containers)})}
        report = audit([wheel(tmp_path, files)], expectation=expectation(manifest("")))
        return [proofs.text(p) for w in report.wheels for p in w.proofs if p.topic == "GPU code"]

    (text,) = proved(KERNEL)
    assert text.startswith("fatbin containers as declared: ")
    (text,) = proved(KERNEL, fatbin("sm_80", "compute_80:8.7", "compute_90:8.7"))
    assert text.startswith("fatbin containers: ")
    (text,) = proved(fatbin("compute_75:8.7"))
    assert text.startswith("fatbin containers: ")


NO_CODE = PROMISES.replace('archs = ["80"]\nptx = "90"', "archs = []")


def test_a_package_without_gpu_code_says_so_and_is_held_to_it(tmp_path: Path) -> None:
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
def test_a_wheel_that_lost_its_extension_modules(
    tmp_path: Path, python: str, tags: str, codes: list[str]
) -> None:
    from gpuforge.manifest.load import load

    text = NO_CODE.partition("[[objects]]")[0].replace('python = ["3.11"]', python)
    (tmp_path / "gpuforge.toml").write_text(text)
    path = wheel(tmp_path, {"demo/__init__.py": b""}, name=f"demo-1.0-{tags}.whl")
    report = audit([path], expectation=expectation(load(tmp_path / "gpuforge.toml")))
    assert [f.code for f in report.findings if f.severity != "info"] == codes


@pytest.mark.parametrize("linkage", ["system", "pip"])
def test_cuda_of_the_machine_is_no_finding_by_a_manifest_that_says_so(
    tmp_path: Path, manifest: Callable[[str], ManifestFile], linkage: str
) -> None:
    source = manifest(f'[cuda]\nlinkage = "{linkage}"\n')
    change = {"demo/ext.so": elf(sections={NV_FATBIN: KERNEL}, needed=["libcudart.so.13", "libnuma.so.1"])}
    numa = ("GF201", "warning", ("libnuma.so.1, NEEDED by demo/ext.so",))
    cudart = ("GF201", "error", ("libcudart.so.13 (nvidia-cuda-runtime), NEEDED by demo/ext.so",))
    assert judged(tmp_path, source, change) == ([numa] if linkage == "system" else [cudart, numa])


def test_objects_of_the_manifest_must_be_in_the_wheel(
    tmp_path: Path, manifest: Callable[[str], ManifestFile]
) -> None:
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


def test_one_cause_in_many_files_is_one_finding(tmp_path: Path) -> None:
    path = wheel(tmp_path, {f"demo/{n}.so": elf(rpath="libs") for n in range(9)})
    (found,) = audit([path]).findings
    assert (len(found.files), len(lines(found)), found.file) == (9, 9, "demo/0.so")


def test_findings_can_be_accepted_by_file_with_a_reason(tmp_path: Path) -> None:
    path = wheel(tmp_path, {f"demo/{n}.so": elf(rpath="libs") for n in range(3)})
    report = audit([path], ignore=[Ignore("GF301", "known", "demo/1*"), Ignore("GF302", "other rule")])
    assert [f.files for f in report.findings] == [("demo/0.so", "demo/2.so")]
    assert [(i.finding.file, i.reason) for i in report.wheels[0].ignored] == [("demo/1.so", "known")]


def test_variants_that_are_chosen_from_do_not_meet(tmp_path: Path) -> None:
    files = {f"demo/libx_cuda{v}0.so": elf(needed=[f"libcudart.so.{v}"]) for v in (12, 13)}
    requires = ["nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"]
    assert "GF102" not in {f.code for f in audit([wheel(tmp_path, files, requires=requires)]).findings}


@pytest.mark.parametrize(
    ("pattern", "file", "fits"),
    [
        ("**/*.so", "a/b/c.so", True),
        ("**/*.so", "c.so", True),
        ("*.so", "a/c.so", False),
        ("demo/lib?.so", "demo/lib1.so", True),
        ("demo/[!x]*.so", "demo/y.so", True),
        ("demo/[!x]*.so", "demo/x.so", False),
        ("demo/**", "demo/a/b", True),
        ("a+b.so", "a+b.so", True),
    ],
)
def test_patterns_of_files(pattern: str, file: str, fits: bool) -> None:
    assert matches(pattern, file) is fits
