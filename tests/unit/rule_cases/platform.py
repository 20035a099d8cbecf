"""Cases of the rules: platform tags, and the wheel as a package."""

import random
import struct

from audit_cases import Case
from audit_samples import elf
from document_samples import recipe

ABI3 = "demo-1.0-cp310-abi3-manylinux_2_17_x86_64.whl"

ANY_PYTHON = "demo-1.0-py3-none-manylinux_2_17_x86_64.whl"

GLIBC = {"libc.so.6": ["GLIBC_2.2.5"]}

ONE_PYTHON = "demo-1.0-cp312-none-manylinux_2_17_x86_64.whl"

PT_NOTE, TEXTREL, FLAGS = 4, 22, 30


def module(*undefined: str) -> bytes:
    return elf(strings=["PyInit_ext"], undefined=undefined)


def needs_level(level: int) -> tuple[int, bytes]:
    data = struct.pack("<III", 0xC0008002, 4, 1 << (level - 1)) + bytes(4)
    return PT_NOTE, struct.pack("<III", 4, len(data), 5) + b"GNU\0" + data


WHEEL = "demo-1.0.dist-info/WHEEL"

TWICE = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_17_x86_64\n"

NOISE = random.Random(0).randbytes(1 << 20)  # noqa: S311 - only has to be incompressible

SOURCES = "demo/_gpuforge/sources/m/"


# ldaddal w1, w0, [x2]; casal w0, w1, [x2]; ldaxr w0, [x1], as GNU as writes them
LSE, EXCLUSIVE = bytes.fromhex("4000e1b8") + bytes.fromhex("41fce088"), bytes.fromhex("20fc5f88")

CASES = {
    "two lines of Root-Is-Purelib": Case(
        "GF706", {"demo/__init__.py": b"", WHEEL: TWICE},
        {WHEEL: TWICE.replace(b"Root-Is-Purelib: true\n", b"")},
    ),
    "top-level packages of tests and samples": Case(
        "GF716", {"demo/a.py": b"", "tests/__init__.py": b"", "tests/test_a.py": b"", "samples/x.py": b""},
        {"tests/__init__.py": None, "tests/test_a.py": None, "samples/x.py": None,
         "demo/tests/__init__.py": b"", "tests/data.json": b""},
    ),
    "segments for pages of 4 KiB on a processor that may have larger ones": Case(
        "GF511", {"demo/ext.so": elf(machine=183, page=1 << 12)}, {"demo/ext.so": elf(machine=183)},
        name="demo-1.0-cp312-cp312-manylinux_2_17_aarch64.whl",
    ),
    "segments for pages of 4 KiB beside those of x86-64, which has no larger ones": Case(
        "GF511",
        {"demo/arm.so": elf(machine=183, page=1 << 14), "demo/ext.so": elf(page=1 << 12)}, {"demo/arm.so": None},
    ),
    "a module for one version in an abi3 wheel": Case(
        "GF504", {"demo/ext.cpython-310-x86_64-linux-gnu.so": module("PyFrame_GetBack", "PyLong_Type", "free")},
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": None, "demo/ext.abi3.so": module("PyLong_Type")}, name=ABI3,
    ),
    "what a library of the stable ABI may define": Case(
        "GF504", {
            "demo/ext.abi3.so": elf(
                strings=["PyInit_ext"], undefined=["PyDate_FromDate"], needed=["libhelp.abi3.so.6"]
            )
        },
        {"demo/ext.abi3.so": module("PyLong_Type")}, name=ABI3,
    ),
    "one that wants nothing else": Case(
        "GF504", {"demo/ext.cpython-310-x86_64-linux-gnu.so": module("PyLong_Type")},
        {"demo/ext.cpython-311-x86_64-linux-gnu.so": module("PyLong_Type")}, name=ABI3,
    ),
    "a module, and a library that is named like one": Case(
        "GF504",
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": module()}, {"demo/ext.cpython-310-x86_64-linux-gnu.so": elf()},
        name=ABI3,
    ),
    "a module for another version": Case(
        "GF504", {"demo/ext.cpython-312-x86_64-linux-gnu.so": module()},
        {"demo/ext.cpython-311-x86_64-linux-gnu.so": module(), "demo/ext.cpython-312-x86_64-linux-gnu.so": None},
    ),
    "a module for another version, under a tag without an ABI": Case(
        "GF504", {"demo/ext.cpython-310-x86_64-linux-gnu.so": module("PyLong_Type")},
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": None, "demo/ext.so": module("_PyObject_MakeTpCall")},
        name=ONE_PYTHON,
    ),
    "a symbol that is not in the stable ABI": Case(
        "GF504", {"demo/ext.abi3.so": module("_PyObject_MakeTpCall")},
        {"demo/ext.abi3.so": module("PyLong_Type")}, name=ANY_PYTHON,
    ),
    "a symbol of a later stable ABI": Case(
        "GF504",
        {"demo/ext.abi3.so": module("PyBuffer_Release")}, {"demo/ext.abi3.so": module("PyLong_Type")}, name=ABI3,
    ),
    "a module with the GIL in a wheel without it": Case(
        "GF504", {"demo/ext.abi3.so": module("PyLong_Type")},
        {"demo/ext.abi3.so": module("PyLong_Type"), "demo/ext.cpython-314t-x86_64-linux-gnu.so": module()},
        name="demo-1.0-cp314-cp314t-manylinux_2_17_x86_64.whl",
    ),
    "a module that both stable ABIs promise": Case(
        "GF504",
        {"demo/ext.abi3.so": module("PyLong_Type")}, {"demo/ext.abi3t.so": module("PyLong_Type")},
        name="demo-1.0-cp315-abi3.abi3t-manylinux_2_17_x86_64.whl",
    ),
    "the same, where names have the platform": Case(
        "GF504",
        {"demo/ext.abi3-x86_64-linux-gnu.so": module("PyLong_Type")},
        {"demo/ext.abi3t-x86_64-linux-gnu.so": module("PyLong_Type"), "demo/ext.abi3-x86_64-linux-gnu.so": None},
        name="demo-1.0-cp315-abi3.abi3t-manylinux_2_17_x86_64.whl",
    ),
    "a module that only says how to make it": Case(
        "GF504", {"demo/ext.so": elf(strings=["PyModExport_ext"], undefined=["_PyObject_MakeTpCall"])},
        {"demo/ext.so": elf(strings=["PyModExport_ext"], undefined=["PyLong_Type"])},
        name="demo-1.0-cp315-abi3.abi3t-manylinux_2_17_x86_64.whl",
    ),
    "packed relocations without their version": Case(
        "GF501", {"demo/ext.so": elf(versions=GLIBC, dynamic=[(36, 0x100)])},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.2.5", "GLIBC_ABI_DT_RELR"]}, dynamic=[(36, 0x100)])},
        name="demo-1.0-cp311-cp311-manylinux_2_36_x86_64.whl",
    ),
    "functions of librt, without it": Case(
        "GF501", {"demo/ext.so": elf(undefined=["shm_open", "mq_open"])},
        {"demo/ext.so": elf(needed=["libdep.so.1"], undefined=["shm_open"], runpath="$ORIGIN"),
         "demo/libdep.so.1": elf(soname="libdep.so.1", needed=["librt.so.1"])},
    ),
    "no stack segment": Case(
        "GF503", {"demo/ext.so": elf().replace(b"\x51\xe5\x74\x64", b"\x80\x15\x04\x65")}, {"demo/ext.so": elf()},
    ),
    "a library of newer systems": Case(
        "GF501", {"demo/ext.so": elf(needed=["libmvec.so.1", "libc.so.6"])},
        {"demo/ext.so": elf(needed=["libm.so.6", "libc.so.6"])},
    ),
    "a newer processor": Case(
        "GF505", {"demo/ext.so": elf(segment=needs_level(3))}, {"demo/ext.so": elf(segment=needs_level(1))},
    ),
    "atomics of Armv8.1 alone": Case(
        "GF505", {"demo/ext.so": elf(machine=183, sections={".text": LSE * 3})},
        {"demo/ext.so": elf(machine=183, sections={".text": LSE * 3 + EXCLUSIVE})},
        name="demo-1.0-cp311-cp311-manylinux_2_28_aarch64.whl",
    ),
    "a runtime for a newer processor": Case(
        "GF505",
        {"demo/ext.so": elf(needed=["libnvcpumath-avx2.so"])}, {"demo/ext.so": elf(needed=["libnvcpumath.so"])},
    ),
    "relocations in code": Case(
        "GF506", {"demo/a.so": elf(dynamic=[(TEXTREL, 0)]), "demo/b.so": elf(dynamic=[(FLAGS, 4)])},
        {"demo/a.so": elf(dynamic=[(FLAGS, 8)]), "demo/b.so": elf()},
    ),
    "no RELRO": Case("GF507", {"demo/ext.so": elf(segment=(0, b""))}, {"demo/ext.so": elf()}),
    "debug information of kernels, but for what ptxas always writes": Case(
        "GF508", {"demo/k.cubin": elf(machine=190, sections={".debug_info": NOISE})},
        {"demo/k.cubin": elf(machine=190, sections={".debug_frame": NOISE})},
    ),
    "debug information": Case(
        "GF508", {"demo/ext.so": elf(sections={".debug_info": NOISE})}, {"demo/ext.so": elf(sections={".text": NOISE})},
    ),
    "debug information before what patchelf has moved": Case(
        "GF508", {"demo/ext.so": elf(sections={".debug_info": NOISE, ".rodata": b"moved"})},
        {"demo/ext.so": elf(sections={".text": NOISE})},
    ),
    "debug information of a program that an old patchelf has changed": Case(
        "GF508", {"demo/tool": elf(sections={".dynamic": b"moved", ".dynstr": b"moved", ".debug_info": NOISE})},
        {"demo/tool": elf(sections={".text": NOISE})},
    ),
    "sources that include by absolute path": Case(
        "GF603", {
            f"{SOURCES}recipe.json": recipe(flags=["-I/home/me/include", "-I/usr/include", "-DX=1"]),
            f"{SOURCES}a.cpp": b"// a\n", f"{SOURCES}a.h": b'#include "/build/x.h"\n#include <x.h>\n',
        },
        {f"{SOURCES}recipe.json": recipe(), f"{SOURCES}a.h": b"#include <x.h>\n"},
    ),
    "purelib": Case(
        "GF706",
        {"demo/ext.so": elf()}, {"demo/ext.so": None, "demo-1.0.data/platlib/demo/ext.so": elf()}, purelib=True,
    ),
    "stored twice": Case(
        "GF707", {"demo/a.so": elf(sections={".x": NOISE}), "demo/b.so": elf(sections={".x": NOISE})},
        {"demo/b.so": elf(sections={".y": NOISE})},
    ),
    "a left-over build folder": Case(
        "GF715", {
            "demo/python/build/lib.linux-x86_64-cpython-310/demo/core.cpython-310-x86_64-linux-gnu.so": elf(),
            "demo/CMakeFiles/x.dir/x.o": b"",
        },
        {
            "demo/python/build/lib.linux-x86_64-cpython-310/demo/core.cpython-310-x86_64-linux-gnu.so": None,
            "demo/CMakeFiles/x.dir/x.o": None, "demo/build/core.so": elf(), "demo/build/lib/libx.so": elf(),
        },
    ),
    "stored twice, with a SONAME": Case(
        "GF707",
        {name: elf(soname="libx.so.1", sections={".x": NOISE}) for name in ("demo/libx.so", "demo/libx.so.1")},
        {"demo/libx.so": elf(soname="libx.so.1", sections={".y": NOISE})},
    ),
    "a program under several names": Case(
        "GF707",
        {name: elf(sections={".x": NOISE}, interpreter="/lib64/x") for name in ("demo/bin/a", "demo/bin/a-3.21")},
        {"demo/bin/a": elf(sections={".y": NOISE}, interpreter="/lib64/x")},
    ),
    "a glibc object under a musl tag": Case(
        "GF501", {"demo/ext.so": elf(versions=GLIBC)}, {"demo/ext.so": elf(needed=["libc.musl-x86_64.so.1"])},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "a library for both under a musl tag, and a program": Case(
        "GF501", {"demo/ext.so": elf(), "demo/tool": elf(interpreter="/lib64/ld-linux-x86-64.so.2")},
        {"demo/tool": elf(interpreter="/lib/ld-musl-x86_64.so.1")},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "a musl object under a glibc tag": Case(
        "GF501", {"demo/ext.so": elf(needed=["libc.so"])}, {"demo/ext.so": elf(needed=["libm.so", "libc.so"])},
    ),
    "one for either": Case(
        "GF501", {"demo/glibc/ext.so": elf(versions=GLIBC), "demo/musl/ext.so": elf(needed=["libc.so"])},
        {"demo/musl/ext.so": elf(needed=[])},
    ),
    "what systems with musl do not bring": Case(
        "GF201", {"demo/ext.so": elf(needed=["libstdc++.so.6", "libz.so.1", "libm.so.6", "libc.musl-x86_64.so.1"])},
        {"demo/ext.so": elf(needed=["libz.so.1", "libm.so.6", "libc.musl-x86_64.so.1"])},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "what systems with musl do not bring, in a wheel for either": Case(
        "GF201", {
            "demo/glibc/ext.so": elf(needed=["libgcc_s.so.1", "libc.so.6"], versions=GLIBC),
            "demo/musl/ext.so": elf(needed=["libgcc_s.so.1", "libc.musl-x86_64.so.1"]),
        },
        {"demo/musl/ext.so": elf(needed=["libc.musl-x86_64.so.1"])},
        name="demo-1.0-cp311-cp311-manylinux_2_17_x86_64.musllinux_1_2_x86_64.whl",
    ),
    "all for another machine": Case(
        "GF501",
        {"demo/ext.so": elf(machine=183, versions={"libc.so.6": ["GLIBC_2.99"]})}, {"demo/ext.so": elf(machine=62)},
    ),
    "some for another machine": Case(
        "GF501", {"demo/a.so": elf(), "demo/ext.so": elf(machine=183)}, {"demo/ext.so": elf(machine=190)},
    ),
    "one of Android's among them": Case(
        "GF501", {"demo/a.so": elf(), "demo/ext.so": elf(needed=["libc.so"], machine=183)},
        {"demo/ext.so": elf(needed=["libdl.so", "libc.so"])},
    ),
    "a processor with several names": Case(
        "GF501", {"demo/ext.so": elf(machine=183)}, {"demo/ext.so": elf(machine=40)},
        name="demo-1.0-cp311-cp311-linux_armv6l.whl",
    ),
    "a tag between two policies": Case(
        "GF501", {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.27"], "libstdc++.so.6": ["GLIBCXX_3.4.22"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.25"], "libstdc++.so.6": ["GLIBCXX_3.4.22"]})},
        name="demo-1.0-cp311-cp311-manylinux_2_25_x86_64.whl",
    ),
    "a tag beyond all policies": Case(
        "GF501", {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.99"], "libstdc++.so.6": ["GLIBCXX_3.4.99"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.90"], "libstdc++.so.6": ["GLIBCXX_3.4.99"]})},
        name="demo-1.0-cp311-cp311-manylinux_2_98_x86_64.whl",
    ),
}  # fmt: skip
