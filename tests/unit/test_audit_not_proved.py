"""What must not be proved: of each proof a wheel that has it, and the nearest wheels that do not."""

import codecs
import json
import struct
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from audit_samples import DT, FLAGS_1, elf, fatbin, wheel
from document_samples import RECIPE, TOOLCHAIN
from environment_samples import environment
from proof_samples import (
    AARCH64,
    CU13,
    CUDNN,
    MODULE,
    RISCV64,
    X86,
    proved,
    tagged,
)

from gpuforge.audit import against, audit
from gpuforge.audit.against import Against
from gpuforge.audit.beside import Neighbour, judged
from gpuforge.audit.findings import Topic
from gpuforge.audit.read.input import Beside
from gpuforge.cuda.provided import Floor, PackageRelease, Provided
from gpuforge.expectation import Expectation, HostOnly
from gpuforge.requirements import Release
from gpuforge.runtime.arch import Arch

PIE = 0x08000000
BY_PATH = {MODULE: elf(needed=["libx.so.1", "libc.so.6"], runpath="$ORIGIN")}
LIBRARY = {"demo/libx.so.1": elf(soname="libx.so.1")}
Files = Mapping[str, bytes]


def wants(glibc: str, machine: int = X86) -> bytes:
    return elf(versions={"libc.so.6": [f"GLIBC_{glibc}"]}, machine=machine)


def of_torch(init: str, own: str = "") -> Files:
    """A package whose module needs a library of torch and has no path to it."""
    code = {"demo/__init__.py": init.encode(), "demo/own.py": own.encode()}
    return {
        **code,
        "demo/ext.cpython-311-x86_64-linux-gnu.so": elf(needed=["libc10.so"], strings=["PyInit_ext"]),
    }


def in_process(*first: str) -> Files:
    """Two modules and a library of theirs that has no path to what it needs; the one module loads that before."""
    return {
        "demo/one.cpython-311-x86_64-linux-gnu.so": elf(needed=["libx.so.1", "liby.so"], runpath="$ORIGIN"),
        "demo/two.cpython-311-x86_64-linux-gnu.so": elf(needed=[*first, "liby.so"], runpath="$ORIGIN"),
        "demo/liby.so": elf(soname="liby.so", needed=["libx.so.1"]),
        **LIBRARY,
    }


@pytest.mark.parametrize(
    ("files", "nearest", "requires"),
    [
        pytest.param({**BY_PATH, **LIBRARY}, BY_PATH, (), id="the library is not there"),
        pytest.param(
            {**BY_PATH, **LIBRARY},
            {**BY_PATH, "demo/libx.so.1": elf(soname="libx.so.1", machine=AARCH64)},
            (),
            id="it is for another processor",
        ),
        pytest.param(
            {**BY_PATH, **LIBRARY},
            {**BY_PATH, **LIBRARY, "demo/liby.so": elf(needed=["libnone.so.1"])[:300]},
            (),
            id="another library cannot be read, so that nobody knows what it needs",
        ),
        pytest.param(
            {**BY_PATH, **LIBRARY},
            {
                **BY_PATH,
                **LIBRARY,
                "demo/liby.so": elf(needed=["libnone.so.1"], dynamic=[(DT["soname"], 1 << 20)]),
            },
            (),
            id="the name of another library lies behind its strings, and glibc would read it there",
        ),
        pytest.param(
            {MODULE: elf(needed=["libx.so.1"], runpath="$ORIGIN"), **LIBRARY},
            {MODULE: elf(needed=["libx.so.1", "libfoo.so.3"], runpath="$ORIGIN:$ORIGIN/../other"), **LIBRARY},
            ("other",),
            id="a search path leads to a package that may have it, or not",
        ),
        pytest.param(
            in_process("libx.so.1"), in_process(), (), id="it is loaded before by one of the modules alone"
        ),
        pytest.param(
            of_torch("import torch\nfrom . import ext\n"),
            of_torch("import os\nfrom .ext import run\nimport torch\n"),
            ("torch==2.9.1",),
            id="the module is imported before torch, whose import loads the library",
        ),
        pytest.param(
            of_torch("from . import own\nimport torch\n", "import torchvision\nfrom demo import ext\n"),
            of_torch("from .own import *\nimport torch\n", "def f(): import torch\nfrom demo import ext\n"),
            ("torch==2.9.1",),
            id="another file imports the module before torch",
        ),
        pytest.param(
            {MODULE: elf(needed=["libcudnn.so.8"], runpath=CUDNN)},
            {MODULE: elf(needed=["libcudnn.so.9"], runpath=CUDNN)},
            ("nvidia-cudnn-cu12==8.9.*",),
            id="the release that is required has an older one",
        ),
        pytest.param(
            {MODULE: elf(needed=["libcudnn.so.9"], runpath=CUDNN)},
            {MODULE: elf(needed=["libcudnn.so.8"], runpath=CUDNN)},
            ("nvidia-cudnn-cu12",),
            id="pip installs a release that has a newer one",
        ),
    ],
)
def test_a_needed_library_that_is_not_found(tmp_path, files, nearest, requires):
    (tmp_path / "nearest").mkdir()
    assert proved("providers", wheel(tmp_path, files, requires=requires))
    assert proved("providers", wheel(tmp_path / "nearest", nearest, requires=requires)) == []


@pytest.mark.parametrize(
    ("method", "found"), [(zipfile.ZIP_DEFLATED, True), (zipfile.ZIP_BZIP2, False), (zipfile.ZIP_LZMA, False)]
)
def test_a_file_of_a_compression_that_only_pip_reads(tmp_path, method, found):
    path = wheel(tmp_path, {**BY_PATH, **LIBRARY})
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr(
            "demo/two.cpython-311-x86_64-linux-gnu.so", elf(needed=[] if found else ["libnone.so.1"])
        )
    assert bool(proved("providers", path)) == found
    assert {"GF705", "GF712"} & {f.code for f in audit([path]).findings} == (set() if found else {"GF712"})


@pytest.mark.parametrize("extra", ['; extra == "old"', ""])
def test_lines_that_bring_several_releases_together_lack_what_none_has(tmp_path, extra):
    files = {MODULE: elf(needed=["libcudnn.so.9"], runpath=CUDNN)}
    lines = [f"nvidia-cudnn-cu12<9{extra}", 'nvidia-cudnn-cu12>=9; extra == "new"']
    assert bool(proved("providers", wheel(tmp_path, files, requires=lines))) == bool(extra)


@pytest.mark.parametrize(
    ("platforms", "objects", "expected"),
    [
        (["manylinux_2_34_x86_64"], [wants("2.34")], "manylinux_2_34_x86_64"),
        (["manylinux_2_28_x86_64"], [wants("2.34")], ""),
        (["manylinux_2_31_riscv64"], [wants("2.31", RISCV64)], "manylinux_2_31_riscv64"),
        (["manylinux_2_28_riscv64"], [wants("2.39", RISCV64)], ""),  # no policy tells what it promises
        (["manylinux1_aarch64"], [wants("2.38", AARCH64)], ""),
        (
            ["manylinux_2_17_aarch64", "manylinux_2_34_x86_64"],
            [wants("2.17", AARCH64), wants("2.34")],
            "manylinux_2_17_aarch64, manylinux_2_34_x86_64",
        ),
        (  # each machine has its own strictest tag
            ["manylinux_2_17_aarch64", "manylinux_2_28_x86_64"],
            [wants("2.17", AARCH64), wants("2.34")],
            "",
        ),
        (  # no object says anything of the other machine
            ["manylinux_2_17_aarch64", "manylinux_2_34_x86_64"],
            [wants("2.34")],
            "manylinux_2_34_x86_64",
        ),
        (  # glibc 2.17 has no libmvec
            ["manylinux_2_17_x86_64"],
            [elf(needed=["libmvec.so.1"], versions={"libc.so.6": ["GLIBC_2.17"]})],
            "",
        ),
        (["manylinux_2_28_x86_64"], [wants("2.28"), wants("2.34")[:300]], ""),
    ],
)
def test_a_tag_that_nobody_can_vouch_for(tmp_path, platforms, objects, expected):
    files = {f"demo/o{number}.so": data for number, data in enumerate(objects)}
    found = proved("platform", wheel(tmp_path, files, name=tagged(*platforms)))
    assert [text.partition(" hold")[0] for text in found] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("change", "matches"),
    [({}, True), ({"name": None}, False), ({"toolchains": [{**TOOLCHAIN, "argv": "c++"}]}, False)],
)
def test_sources_that_nobody_can_compile(tmp_path, change, matches):
    source = {"file": "a.cpp", "sha256": sha256(b"// a\n").hexdigest()}
    recipe = {**RECIPE, "sources": [source], "includes": [], "fallbacks": [], **change}
    folder = "demo/_gpuforge/sources/m/"
    files = {f"{folder}recipe.json": json.dumps(recipe).encode(), f"{folder}a.cpp": b"// a\n"}
    assert bool(proved("sources", wheel(tmp_path, files))) == matches


def test_a_functions_stable_form_is_not_proved_beside_a_file_that_cannot_be_read(tmp_path):
    expectation = Expectation(spans=("torch",))
    files = {MODULE: elf()}
    (tmp_path / "nearest").mkdir()
    assert proved("stable ABI", wheel(tmp_path, files), expectation=expectation)
    nearest = wheel(tmp_path / "nearest", {**files, "demo/y.so": elf()[:300]})
    assert proved("stable ABI", nearest, expectation=expectation) == []


def test_a_library_of_a_wheel_beside_it_is_a_second_copy_too(tmp_path):
    own = wheel(
        tmp_path, {MODULE: elf(needed=["libcudart.so.13"], runpath=CU13)}, requires=["nvidia-cuda-runtime"]
    )
    files = {"nvidia/cu13/lib/libcudart.so.13": elf(soname="libcudart.so.13")}
    runtime = wheel(tmp_path, files, name="nvidia_cuda_runtime-13.0.96-py3-none-manylinux_2_17_x86_64.whl")
    (tmp_path / "toolkit" / "lib64").mkdir(parents=True)
    place = tmp_path / "toolkit" / "lib64"
    for soname, fits in (("libcudart.so.13", True), ("libcudart.so.12", False)):
        (place / soname).touch()
        brought = against.parse(f"toolkit:{tmp_path / 'toolkit'}")
        for paths in ([own], [own, runtime]):
            assert bool(proved("against", *paths, against=brought)) == fits, soname


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sections", "proof"),
    [
        pytest.param({".rodata": b"libcudart.so.13\0"}, "", id="the user's own"),
        pytest.param({".rodata": b"libcudart.so.12\0"}, None, id="another version"),
        pytest.param({".data": b"libcudart.so.12\0"}, None, id="in data"),
        pytest.param({".rodata.x": b"libcudart.so.12\0"}, None, id="in another section"),
        pytest.param({".rodata": bytes(9 << 20) + b"libcudart.so.12\0"}, None, id="behind much else"),
        pytest.param({".x": bytes(26 << 20), ".rodata": b"libcudart.so.12\0"}, None, id="at the end"),
        pytest.param(
            {".x": bytes(26 << 20), ".rodata": b"libcudart.so.12\0", ".y": bytes(9 << 20)},
            "; not all constants of ext.cpython-311-x86_64-linux-gnu.so were searched for names of libraries",
            id="where nothing is kept",
        ),
    ],
)
def test_a_name_of_another_version_that_code_may_open(tmp_path, sections, proof):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudart.so.13").touch()
    place = tmp_path / "lib"
    path = wheel(tmp_path, {MODULE: elf(sections=sections)})
    text = f"the folder {place}: the wheel loads no second copy of its 1 library{proof}"
    assert proved("against", path, against=against.parse(str(place))) == ([] if proof is None else [text])


def test_a_name_in_a_file_without_section_headers(tmp_path):
    (tmp_path / "libcudart.so.13").touch()
    for name, fits in ((b"libcudart.so.13\0", True), (b"libcudart.so.12\0", False)):
        data = bytearray(elf(sections={".rodata": name}))
        data[40:48], data[58:64] = bytes(8), bytes(6)
        brought = against.parse(str(tmp_path))
        assert bool(proved("against", wheel(tmp_path, {MODULE: bytes(data)}), against=brought)) == fits


INTERPRETER = "/lib64/ld-linux-x86-64.so.2"
QT = "libQt5Core-0a1b2c3d.so.5"


@pytest.mark.parametrize(
    ("library", "second"),
    [
        pytest.param(elf(soname=QT), True, id="a library"),
        pytest.param(
            elf(soname=QT, interpreter=INTERPRETER), True, id="a library that can be started, as Qt5Core"
        ),
        pytest.param(elf(interpreter=INTERPRETER), False, id="a program"),
        pytest.param(elf(soname=QT, dynamic=[(FLAGS_1, PIE)]), False, id="a program with a SONAME"),
    ],
)
def test_a_library_that_can_be_started_is_a_second_copy_too(tmp_path, library, second):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libQt5Core.so.5").touch()
    brought = against.parse(str(tmp_path / "lib"))
    path = wheel(tmp_path, {MODULE: elf(), f"demo.libs/{QT}": library})
    found = {f.code for f in audit([path], against=brought).findings}
    assert "GF110" in found if second else "GF110" not in found
    assert bool(proved("against", path, against=brought)) != second


@pytest.mark.parametrize("data", [b"not a wheel", None])
def test_packages_that_cannot_be_read_do_not_fit(tmp_path, data):
    own = wheel(tmp_path, {MODULE: elf()})
    name = "other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    other = wheel(tmp_path, {"other/ext.so": elf()}, name=name)
    assert _fits(own, other)
    if data is None:
        wheel(tmp_path, {"other/ext.so": elf()[:300]}, name=name)
    else:
        other.write_bytes(data)
    assert not _fits(own, other)


def test_packages_of_an_environment_are_not_said_to_fit_a_wheel_that_cannot_be_read(tmp_path):
    other = wheel(tmp_path, {"other/ext.so": elf()}, name="other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl")
    place = environment(tmp_path / "env", other)
    for library, fits in ((elf(), True), (elf()[:300], False)):
        own = wheel(tmp_path, {MODULE: elf(), "demo/y.so": library})
        assert bool(proved("beside", own, beside=Beside(place))) == fits


def _fits(own: Path, other: Path) -> bool:
    report = judged(audit([own]), [own], [Neighbour("other", ("other ==1.0",), (other,))], [])
    assert bool(report.problems) == (other.read_bytes()[:2] != b"PK")
    return "beside" in {proof.topic for proof in report.wheels[0].proofs}


# What was proved, as lines of text: each kind, whole.


INSTRUCTIONS = (
    "; not compared: functions of the system's libraries, relocations, processor instructions, what "
    "code does when it is loaded"
)
EXT = "demo/ext.cpython-311-x86_64-linux-gnu.so"
CUFFT = Floor(
    "nvidia-cufft", "12.0.0.15", "12.0", "13.0", symbols={"libcufft.so.12": 14}, refused=("11.4.1.4",)
)
OLDEST = PackageRelease("nvidia-cufft", "12.0.0.15", "oldest", "", "")
FORGOTTEN = Floor("cutensor", "2.1", "2.1", forgotten_by=(Release("nvidia-curand", "10.4"),))


def lines_of(
    topic: Topic,
    folder: Path,
    files: Mapping[str, bytes],
    requires: tuple[str, ...] = (),
    name: str = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.manylinux_2_34_x86_64.whl",
    **options: Any,
) -> list[str]:
    (report,) = audit([wheel(folder, files, name=name, requires=requires)], **options).wheels
    return [proof.text for proof in report.proofs if proof.topic == topic]


CASES: dict[str, tuple[Topic, dict[str, Any], list[str]]] = {
    "nothing needed": (
        "providers",
        {"files": {EXT: elf(needed=[])}},
        [f"every NEEDED library is found: none is needed{INSTRUCTIONS}"],
    ),
    "in several places": (
        "providers",
        {
            "files": {EXT: elf(needed=["libx.so", "libcufft.so.12", "libcuda.so.1"], runpath="$ORIGIN"),
                      "demo/libx.so": elf(soname="libx.so", needed=[])},
            "expectation": Expectation(linkage="system"),
        },
        [
            'every NEEDED library is found: 1 in the wheel, 1 from the CUDA of the machine (linkage = "system"), '
            f"1 from the driver{INSTRUCTIONS}"
        ],
    ),
    "once imported": (
        "providers",
        {"files": {EXT: elf(needed=["libc10.so"])}, "requires": ("torch==2.9.1",)},
        [
            f"every NEEDED library is found, once torch is imported: 1 from other packages{INSTRUCTIONS}",
            "libc10.so ← torch, once torch is imported",
        ],
    ),
    "by an extra": (
        "providers",
        {
            "files": {EXT: elf(needed=["libcufft.so.12"], runpath="$ORIGIN/../nvidia/cu13/lib")},
            "requires": ('nvidia-cufft<13,>=12.0; extra == "gpu"',),
        },
        [
            f"every NEEDED library is found: 1 from other packages{INSTRUCTIONS}",
            "libcufft.so.12 ← nvidia-cufft (extra gpu), by RUNPATH $ORIGIN/../nvidia/cu13/lib",
        ],
    ),
    "floors": (
        "requirements",
        {
            "files": {EXT: elf(needed=[])},
            "requires": ("nvidia-cufft", "cutensor"),
            "brought": Provided((CUFFT, FORGOTTEN), (OLDEST, OLDEST._replace(version="12.1"))),
        },
        [
            "nvidia-cufft: floor 13.0: all 14 symbols of libcufft are in nvidia-cufft 12.0.0.15, and not in 11.4.1.4",
            "cutensor: floor 2.1: its library is in cutensor 2.1",
            "cutensor is for nvidia-curand 10.4, which needs it and does not declare it",
            "no undeclared CUDA library is needed by nvidia-cufft 12.0.0.15, nvidia-cufft 12.1",
        ],
    ),
    "as declared": (
        "GPU code",
        {
            "files": {EXT: elf(sections={".nv_fatbin": fatbin("sm_80", "sm_90", "compute_90:8.7") * 2})},
            "expectation": Expectation(cubins=(Arch.parse("80"), Arch.parse("90")), ptx=(Arch.parse("90"),)),
        },
        [
            "fatbin containers as declared: 2 of sm_80 sm_90 + compute_90 (PTX 8.7); not all data that is packed in "
            "binaries and texts was read; sources of kernels, SPIR-V and AMD's code outside of bundles were not "
            "looked for"
        ],
    ),
    "cubins": ("GPU code", {"files": {"demo/k.cubin": fatbin("sm_90")}}, ["cubin files: 1 of sm_90, no PTX"]),
    "tags": (
        "platform",
        {"files": {EXT: elf(versions={"libc.so.6": ["GLIBC_2.28"]})}},
        [
            "manylinux_2_28_x86_64, manylinux_2_34_x86_64 hold; highest required: GLIBC 2.28 "
            "(ext.cpython-311-x86_64-linux-gnu.so); processor instructions were not read"
        ],
    ),
    "no policy": (
        "platform",
        {
            "files": {"demo/x.so": elf(versions={"libc.so.6": ["GLIBC_2.99"]})},
            "name": "demo-1.0-cp311-cp311-linux_x86_64.whl",
        },
        ["linux_x86_64 promises nothing; no manylinux policy has it all; highest required: GLIBC 2.99 (x.so)"],
    ),
    "opens": (
        "host-only",
        {
            "files": {f"demo/{n}.so": elf(strings=["libcuda.so.1"]) for n in "abcd"},
            "expectation": Expectation(host_only=(HostOnly("core", ("demo/*.so",), ("OpenCL",)),)),
        },
        [
            "core: 4 objects read completely (a.so, b.so, c.so …): no GPU code in a known format (packed data was not "
            "unpacked), no trace of a GPU compiler, no library of a GPU stack NEEDED but OpenCL; named in strings, so "
            "that code may open them: libcuda.so.1"
        ],
    ),
    "unstable functions": (
        "stable ABI",
        {"files": {EXT: elf()}, "expectation": Expectation(spans=("torch",))},
        ["torch: none of its functions that change with each release is used"],
    ),
    "second copies": (
        "against",
        {"files": {EXT: elf()}, "against": Against("the folder /x", frozenset({"liba.so"}))},
        ["the folder /x: the wheel loads no second copy of its 1 library"],
    ),
    "second copies of a compiler": (
        "against",
        {"files": {EXT: elf()}, "against": Against("nvhpc", frozenset({"liba.so", "libb.so"}), "", "nvhpc")},
        ["nvhpc: the wheel loads no second copy of the 2 libraries that releases of nvhpc have"],
    ),
    "second copies that others may load": (
        "against",
        {
            "files": {EXT: elf()},
            "requires": ("numpy", "rich; extra == 'x'"),
            "against": Against("the folder /x", frozenset({"liba.so"})),
        },
        [
            "the folder /x: the wheel loads no second copy of its 1 library; what required packages load was not "
            "followed: numpy"
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_proof_has_its_lines(case, tmp_path):
    topic, options, expected = CASES[case]
    assert lines_of(topic, tmp_path, **options) == expected


OPENED = Against("the folder", frozenset({"libcublas.so.11", "libgomp.so.1"}))
HERE = "import ctypes, os\nhere = os.path.dirname(__file__)\n"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import ctypes\nctypes.CDLL('libm.so.6')\n", ""),
        ("import ctypes\nctypes.CDLL(None)\n", ""),
        ("import ctypes\ndef f(lib: ctypes.CDLL) -> bool:\n    return isinstance(lib, ctypes.CDLL)\n", ""),
        (HERE + "ctypes.CDLL(os.path.join(here, 'libx.so'))\n", ""),
        (HERE + "for name in ('liba.so', 'libb.so'):\n    ctypes.cdll.LoadLibrary(here + '/' + name)\n", "?"),
        (
            HERE
            + "for name in ('liba.so', 'libb.so'):\n    ctypes.cdll.LoadLibrary(os.path.join(here, name))\n",
            "",
        ),
        ("import ctypes\ndef load(name):\n    return ctypes.cdll[name]\n", "users"),
        ("import ctypes\ndef load(name):\n    return ctypes.cdll[name]\nload('libx.so')\n", "?"),
        ("import ctypes\nctypes.CDLL('libcub' + 'las.so.12')\n", "names"),
        ("import ctypes\nctypes.PyDLL('libcublas.so.12')\n", "names"),
        ("import ctypes\nctypes.cdll['libcublas.so.12']\n", "?"),
        ("from ctypes import CDLL as C\nC('libx.so')\n", "?"),
        ("import ctypes\nopen_it = ctypes.CDLL\n", "?"),
        ("import ctypes as c\ngetattr(c, 'CD' + 'LL')('libx.so')\n", "?"),
        ("import ctypes, operator as o\no.attrgetter('CDLL')(ctypes)('libx.so')\n", "?"),
        ("import ctypes\nmatch ctypes:\n    case object(CDLL=f): f('libx.so')\n", "?"),
        ("import ctypes\nctypes.pythonapi.dlopen(b'libcublas.so.12', 2)\n", "names"),
        ("import ctypes\nctypes._dlopen('libx.so', 2)\n", "?"),
        ("import ctypes\nctypes.CDLL(None).dlmopen(0, b'libx.so', 2)\n", "?"),
        ("import ctypes\nctypes.CDLL(None).__libc_dlopen_mode(b'libx.so', 2)\n", "?"),
        ("import sqlite3\nsqlite3.connect('').enable_load_extension(True)\n", "?"),
        ("import sys\nsys.modules.get('cty' + 'pes')\n", "run time"),
        ("import sys\nsys.modules.get('demo.ext')\n", ""),
        ("import ctypes\nctypes.__getattribute__('CD' + 'LL')\n", "run time"),
        (
            "from cuda import pathfinder\ngetattr(pathfinder, 'load_nvidia_' + 'dynamic_lib')('cublas')\n",
            "run time",
        ),
        ("import ctypes\ntype(ctypes.pythonapi).__mro__[1]('libx.so')\n", "run time"),
        ("import cffi\nn = 'lib'\nn += 'x.so.12'\ncffi.FFI().dlopen(n)\n", "?"),
        ("import ctypes, os\nctypes.CDLL(os.environ['X'])\n", "?"),
        ("import os\nos.environ['LD_PRELOAD'] = 'libx.so'\n", "?"),
        ("x = 1\n", ""),  # begins as zlib does
        ("import importlib\nc = importlib.import_module('ctypes')\n", "?"),
        ("import sys\nc = sys.modules['ctypes']\n", "?"),
        ("import sys\nc = sys.modules['cty' + 'pes']\n", "run time"),
        ("import importlib\nc = importlib.import_module('cty' 'pes')\n", "run time"),
        ("from importlib.machinery import ExtensionFileLoader as E\nE('x', 'libx.so').load_module()\n", "?"),
        ("import cffi\ngetattr(cffi.FFI(), 'dl' + 'open')('libx.so')\n", "run time"),
        ("exec('import cty' 'pes')\n", "run time"),
        ("import re\nre.compile('x')\n", ""),
        ("import pickle\npickle.loads(b'')\n", "run time"),
        ("import os\nos.execv('/bin/x', ['x'])\n", "run time"),
        ("# coding: rot13\nvzcbeg pglcrf\n", "?"),
        ("import ctypes\nn = 'libm.so.6'\nfrom .x import n\nctypes.CDLL(n)\n", "?"),
        ("import ctypes\nn = 'libm.so.6'\nfrom .x import *\nctypes.CDLL(n)\n", "?"),
        ("import ctypes\nn = 'libm.so.6'\nfrom .x import m\nctypes.CDLL(n)\n", ""),
        ("import ctypes\nn = 'libm.so.6'\ntry: f()\nexcept E as n: ctypes.CDLL(n)\n", "?"),
        ("import ctypes\nn = 'libm.so.6'\nmatch f():\n    case n: ctypes.CDLL(n)\n", "?"),
        ("import ctypes\nn = 'libm.so.6'\nload = lambda n: ctypes.CDLL(n)\n", "?"),
        ("import ctypes\nn = 'libm.so.6'\ndef load(*n): return ctypes.CDLL(n)\n", "users"),
        ("import ctypes\nctypes.CDLL(bytes([108, 105, 98]).decode() + 'cublas.so.12')\n", "?"),
        ("import pydoc\npydoc.locate('ctypes.CD' + 'LL')('libx.so')\n", "run time"),
        ("import ctypes\nN = ['libm.so.6']\nN.extend(open('x'))\nfor n in N:\n    ctypes.CDLL(n)\n", "?"),
        ("import ctypes\nn = ''\ndef f(): global n; n = input()\nf(); ctypes.CDLL(n or 'libm.so.6')\n", "?"),
    ],
)
def test_python_code_that_opens_more_than_is_known(tmp_path, code, reason):
    path = wheel(tmp_path, {MODULE: elf(), "demo/__init__.py": code.encode()})
    report = audit([path], against=OPENED).wheels[0]
    held = [p.text for p in report.proofs if p.topic == "against"]
    withheld = "".join(p.text for p in report.withheld if p.topic == "against")
    assert ("was not followed to a name: __init__.py" in withheld) == (reason == "?")
    assert ("code names other versions of them" in withheld) == (reason == "names")
    assert bool(held) == (not withheld) == (reason in {"", "users", "run time"})
    assert ("code that is made at run time were not followed: __init__.py" in "".join(held)) == (
        reason == "run time"
    )
    assert ("functions open what users name: __init__.py" in "".join(held)) == (reason == "users")


def test_the_line_names_packages_that_are_imported_and_not_required(tmp_path):
    imports = ("os, ctypes", "tvm_ffi as t", "demo.x", "numpy.linalg", "this module")
    code = (
        b"".join(b"import %s\n" % each.encode() for each in imports) + b"from . import z\nfrom .x import y\n"
    )
    files = {MODULE: elf(), "demo/__init__.py": code, "demo/tests/x.py": b"import pytest\n"}
    (line,) = proved("against", wheel(tmp_path, files, requires=["numpy"]), against=OPENED)
    assert line.endswith(
        "; what required packages load was not followed: numpy"
        "; what other packages load that are imported was not followed: tvm_ffi"
    )


@pytest.mark.parametrize(
    ("file", "content", "followed"),
    [
        ("README.md", b"import ctypes\n", True),
        ("demo/tests/test_x.py", b"import ctypes, os\nctypes.CDLL(os.environ['X'])\n", True),
        ("demo.pth", b"import ctypes, os; ctypes.CDLL(os.environ['X'])\n", False),
        ("demo.pth", codecs.BOM_UTF8 + b"import ctypes, os; ctypes.CDLL(os.environ['X'])\n", False),
        ("demo/code", b"import ctypes\nctypes.CDLL('libx.so')\n", False),
        ("demo/x.pyc", b"\xa7\r\r\n" + bytes(12) + b"\xe3CDLL", False),
        ("demo/x.pkl", b"\x80\x04\x8c\x06ctypes\x8c\x04CDLL\x93.", False),
        ("demo/x.so.py", b"import ctypes, os\nctypes.CDLL(os.environ['X'])\n", False),
        ("demo/run", b"#!/bin/sh\nexport LD_PRELOAD=libx.so\n", False),
        ("demo-1.0.data/scripts/run", b"#!python\nimport ctypes, sys\nctypes.CDLL(sys.argv[1])\n", False),
    ],
)
def test_files_that_python_runs(tmp_path, file, content, followed):
    assert (
        bool(proved("against", wheel(tmp_path, {MODULE: elf(), file: content}), against=OPENED)) == followed
    )


@pytest.mark.parametrize("tag", [0x7FFFFFFD, 0x6FFFFEFC, 0x6FFFFEFB])  # DT_AUXILIARY, DT_AUDIT, DT_DEPAUDIT
def test_an_auxiliary_library_is_loaded_too(tmp_path, tag):
    for name, found in (("libm.so.6", False), ("libcublas.so.12", True)):
        data = elf(filters=[name]).replace(struct.pack("<q", DT["filter"]), struct.pack("<q", tag))
        assert bool(proved("against", wheel(tmp_path, {MODULE: data}), against=OPENED)) == (not found)
