"""Each rule: a wheel that it must speak of, and the nearest one that it must not."""

from __future__ import annotations

import json
import re
import sys
from hashlib import sha256
from pathlib import Path

import document_samples
import pytest
from audit_cases import Case, findings
from audit_samples import (
    CUDART,
    EXEC_STACK,
    KERNEL,
    LIBS,
    NVOMP,
    SET,
    elf,
    fatbin,
    grafted,
    index,
    user_of,
    wheel,
)
from document_samples import LIBRARIES, RECIPE

from gpuforge.audit import audit
from gpuforge.audit.evidence import matches
from gpuforge.audit.judge import Ignore
from gpuforge.audit.report.sentences import lines
from gpuforge.audit.rules import RULES

DOCS = Path(__file__).parents[2] / "docs" / "findings"
GOMP = "demo.libs/libgomp-a34b3233.so.1.0.0"
CU13 = "$ORIGIN/../nvidia/cu13/lib"

VMFB = b"IREE\0//\n.version 7.6\n.target sm_80\n.visible .entry k() { ret; }\0more"


def for_iree(arch: str) -> bytes:
    image = {"kind": "iree-cuda", "arch": arch, "isa": "7.6"}
    return index(file="k.vmfb", sha256=sha256(VMFB).hexdigest(), images=[image])


LIBRARY = elf()


def library_index(abi: str) -> bytes:
    library = {**document_samples.LIBRARY, "sha256": sha256(LIBRARY).hexdigest()}
    return json.dumps({**LIBRARIES, "abi": abi, "libraries": [library]}).encode()


def recipe(**change: object) -> bytes:
    source = {"file": "a.cpp", "sha256": sha256(b"// a\n").hexdigest()}
    held = {**RECIPE, "fallbacks": [], "cpu": "", "sources": [source], "includes": []}
    return json.dumps(held | change).encode()


SOURCES = "demo/_gpuforge/sources/m/"

CASES = {
    "hashed runtime beside an archive": Case(
        "GF101", "error", ("libnvomp-fb1a2b9f.so (NVIDIA HPC SDK), loaded by libcore.so, ext.so; "
            "libnvomp.so comes beside it when users link against libcore.so",),
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
            "libcudart.so.12 (nvidia-cuda-runtime-cu12, demo/a.py opens it if it finds it), NEEDED by demo/ext.so",
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
        "GF205", "warning", ("libcublas.so.12 (no requirement declares it), NEEDED by demo/ext.so",),
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
    "the build machine's folder, and import torch loads the library": Case(
        "GF302", "warning", ("demo/ext.so: RPATH /build/lib",),
        {"demo/ext.so": elf(rpath="/build/lib", needed=["libc10.so"])},
        {"demo/ext.so": elf(rpath="$ORIGIN", needed=["libc10.so"])},
        requires=["torch"],
    ),
    "a folder of the system before the one of a package": Case(
        "GF302", "warning", ("demo/ext.so: RUNPATH /usr/local/cuda/lib64",),
        {"demo/ext.so": elf(runpath=f"/usr/local/cuda/lib64:{CU13}", needed=["libcudart.so.13"])},
        {"demo/ext.so": elf(runpath=CU13, needed=["libcudart.so.13"])},
        requires=["nvidia-cuda-runtime>=13"],
    ),
    "a folder of the system behind it": Case(
        "GF302", "info", ("demo/ext.so: RUNPATH /usr/local/cuda/lib64",),
        {"demo/ext.so": elf(runpath=f"{CU13}:/usr/local/cuda/lib64", needed=["libcudart.so.13"])},
        {"demo/ext.so": elf(runpath=CU13, needed=["libcudart.so.13"])},
        requires=["nvidia-cuda-runtime>=13"],
    ),
    "a folder of the system, the only place of a library": Case(
        "GF302", "info", ("demo/ext.so: RUNPATH /opt/rocm/lib",),
        {"demo/ext.so": elf(runpath="$ORIGIN/../rocm/lib:/opt/rocm/lib", needed=["libamdhip64.so.7"])},
        {"demo/ext.so": elf(runpath="$ORIGIN/../rocm/lib", needed=["libamdhip64.so.7"])},
    ),
    "a folder of a Python of the build machine": Case(
        "GF302", "warning", ("demo/ext.so: RUNPATH /usr/local/lib/python3.9/dist-packages/rocm/lib",),
        {"demo/ext.so": elf(runpath="/usr/local/lib/python3.9/dist-packages/rocm/lib", needed=["libamdhip64.so.7"])},
        {"demo/ext.so": elf(needed=["libamdhip64.so.7"])},
    ),
    "the build machine's folder, dead": Case(
        "GF302", "warning", ("demo/ext.so: RUNPATH /build/lib",),
        {"demo/ext.so": elf(runpath="/build/lib")},
        {"demo/ext.so": elf(runpath="$ORIGIN")},
    ),
    "a higher symbol version than the tag": Case(
        "GF501", "error", ("demo/ext.so: requires GLIBC_2.28, GLIBCXX_3.4.21",),
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
    "a tag with two parts": Case(
        "GF502", "warning",
        ("cp311-cp311-manylinux_2_17_x86_64: in the file name only", "cp311-manylinux_2_17_x86_64: in WHEEL only"),
        {"demo/ext.so": elf()}, {}, tags=["cp311-manylinux_2_17_x86_64"],
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
                images=[{"kind": "cubin", "arch": "sm_90"}, {"kind": "ptx", "arch": "compute_90", "isa": "8.7"}]
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
        "GF701", "error", (f"{SET}index.json: its schema is not 1",),
        {f"{SET}index.json": b'{"schema": 9}', f"{SET}k.fatbin": KERNEL}, {f"{SET}index.json": index()},
    ),
    "sources whose fallback is not there": Case(
        "GF701", "error", (f"{SOURCES}recipe.json: its fallback 'k' is not in the wheel",),
        {f"{SOURCES}recipe.json": recipe(fallbacks=["k"]), f"{SOURCES}a.cpp": b"// a\n"},
        {f"{SET}index.json": index(), f"{SET}k.fatbin": KERNEL},
    ),
    "a fallback library with another ABI": Case(
        "GF701", "error", (f"{SOURCES}recipe.json: its ABI id is 1-0a, that of its fallback 'k' is 2-0b",),
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


def test_no_module_of_rules_imports_another() -> None:
    """What rules of several modules need is in a module without rules."""
    modules = {rule.check.__module__ for rule in RULES}
    for module in modules:
        text = Path(str(sys.modules[module].__file__)).read_text()
        assert modules.isdisjoint(re.findall(r"^from (\S+) import", text, re.MULTILINE)), module


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
