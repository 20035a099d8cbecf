"""What must not be proved of GPU code: of each proof a wheel that has it, and the nearest wheels that do not."""

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import shutil
import struct
import subprocess
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard
from audit_samples import KERNEL, SET, elf, fatbin, wheel, with_ident
from document_samples import INDEX, LIBRARIES
from object_samples import archive
from proof_samples import CUBIN, MODULE, PTX, VULKAN, proved, set_of

from gpuforge.audit import audit
from gpuforge.audit.reach import reach
from gpuforge.binary import ptx
from gpuforge.binary.runnable import common_images
from gpuforge.expectation import Expectation, HostOnly
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.userbuild import families

PT_NOTE = 4
LEVEL = struct.pack("<III4sIIII", 4, 16, 5, b"GNU\0", 0xC0008002, 4, 1 << 3, 0)  # x86-64-v4
V4 = elf(segment=(PT_NOTE, LEVEL))


def older(isa: str) -> dict[str, str]:
    return {**PTX, "isa": isa}


def library(arch: str) -> dict[str, str]:
    return {"kind": "library", "arch": arch}


@pytest.mark.parametrize(
    ("index", "data", "matches"),
    [
        pytest.param(set_of(INDEX, KERNEL, CUBIN, PTX), KERNEL, True, id="the ISA of the PTX"),
        pytest.param(set_of(INDEX, KERNEL, CUBIN, older("7.0")), KERNEL, False, id="an older ISA"),
        pytest.param(set_of(INDEX, KERNEL, CUBIN, PTX, older("6.0")), KERNEL, False, id="an ISA beside it"),
        pytest.param(set_of(INDEX, KERNEL, CUBIN), KERNEL, False, id="without the PTX"),
        # what the runtime refuses
        pytest.param(set_of(INDEX, KERNEL, CUBIN, PTX, toolkit=""), KERNEL, False, id="no toolkit"),
        pytest.param(set_of(INDEX, KERNEL, CUBIN, PTX, toolchain={}), KERNEL, False, id="no toolchain"),
        pytest.param(set_of(INDEX, KERNEL, CUBIN, PTX, name="a\nb"), KERNEL, False, id="a name of two lines"),
        pytest.param(set_of(INDEX, KERNEL, CUBIN, PTX, VULKAN), KERNEL, True, id="code of another kind"),
        pytest.param(set_of(INDEX, KERNEL, CUBIN, VULKAN), KERNEL, False, id="code of another kind alone"),
        pytest.param(set_of(LIBRARIES, elf(), library("")), elf(), True, id="any CPU"),
        pytest.param(set_of(LIBRARIES, elf(), library(""), CUBIN), elf(), False, id="a library and a cubin"),
        pytest.param(set_of(LIBRARIES, V4, library("x86-64-v4")), V4, True, id="the level that it needs"),
        pytest.param(set_of(LIBRARIES, V4, library("")), V4, False, id="any CPU, and it needs a level"),
        pytest.param(set_of(LIBRARIES, V4, library("x86-64-v3")), V4, False, id="a lower level"),
        pytest.param(set_of(LIBRARIES, b"hello", library("")), b"hello", False, id="not a library"),
    ],
)
def test_a_kernel_set_that_does_not_match(tmp_path, index, data, matches):
    file = "k.fatbin" if "modules" in index else "libk.so"
    files = {f"{SET}index.json": json.dumps(index).encode(), f"{SET}{file}": data}
    assert bool(proved("kernel sets", wheel(tmp_path, files))) == matches


def test_the_proof_names_the_images_that_were_not_read(tmp_path):
    for images, more in (
        ([CUBIN, PTX], ""),
        ([CUBIN, PTX, VULKAN], "; of images of iree-vulkan only the files were compared"),
    ):
        files = {
            f"{SET}index.json": json.dumps(set_of(INDEX, KERNEL, *images)).encode(),
            f"{SET}k.fatbin": KERNEL,
        }
        assert proved("kernel sets", wheel(tmp_path, files)) == [f"k: files and images match the index{more}"]


@pytest.mark.parametrize(
    "symbol",
    [
        "_ZN2at4_ops5zeros4callEv",
        "_ZNKR2at6Tensor5sizesEv",
        "_ZNO2at6Tensor3fooEv",
        "_ZNVK3c104Type3fooEv",
        "_ZN4c10d4Work4waitEv",
        "_ZTIN2at6TensorE",
        "_ZTVN6caffe28TypeMetaE",
        "_ZTWN3c103fooE",
        "_ZGVN3c103fooE",
        "_ZThn200_NK5torch4lazy4Node3fooEv",
        "_ZTv0_n24_N3c104Node3fooEv",
        "_Z16THPVariable_WrapN2at10TensorBaseE",
        "_ZN10THPPointerI7_objectE4freeEv",
        "_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb",
        "THPVariableClass",
    ],
)
def test_a_name_of_torch_that_changes_with_each_release(tmp_path, symbol):
    expectation = Expectation(spans=("torch",))
    nearest = [
        "aoti_torch_empty_strided",
        "_ZN8my_torch4Type3fooEv",
        "_ZN3at24TypeE",
        "_ZNSt6vectorIiE4pushEv",
    ]
    stable = wheel(tmp_path, {MODULE: elf(undefined=nearest)})
    assert proved("stable ABI", stable, expectation=expectation)
    unstable = wheel(tmp_path, {MODULE: elf(undefined=[*nearest, symbol])})
    assert proved("stable ABI", unstable, expectation=expectation) == []


def without_section_headers(folder: Path, function: str, *flags: str) -> bytes:
    """Compile a library that calls a function, and drop its section headers (strip --strip-section-headers)."""
    (folder / "x.c").write_text(f"void {function}(void);\nvoid PyInit_ext(void) {{ {function}(); }}\n")
    compiler = ["gcc", "-shared", "-fPIC", *flags, "-o", "x.so", "x.c"]
    subprocess.run(compiler, check=True, cwd=folder)
    data = bytearray((folder / "x.so").read_bytes())
    data[40:48], data[58:64] = bytes(8), bytes(6)
    return bytes(data)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    ("flags", "codes"),
    [
        pytest.param((), ["GF216"], id="the hash table has the number of symbols"),
        pytest.param(("-Wl,--hash-style=sysv",), ["GF216"], id="an older hash table"),
        pytest.param(
            ("-fvisibility=hidden", "-nostdlib", "-Wl,--hash-style=gnu"), [], id="nothing is defined"
        ),
    ],
)
def test_a_symbol_in_a_library_without_section_headers(tmp_path, flags, codes):
    expectation = Expectation(spans=("torch",))
    for function, stable in (("aoti_torch_empty_strided", True), ("_ZN2at4_ops5zeros4callEv", False)):
        path = wheel(tmp_path, {MODULE: without_section_headers(tmp_path, function, *flags)})
        assert bool(proved("stable ABI", path, expectation=expectation)) == stable
        assert [f.code for f in audit([path], expectation=expectation).findings if f.code == "GF216"] == (
            [] if stable else codes
        )


@pytest.mark.parametrize(("project", "stable"), [("demo", True), ("torch", False)])
def test_a_package_is_not_said_to_use_none_of_its_own_functions(tmp_path, project, stable):
    path = wheel(tmp_path, {MODULE: elf()}, name=f"{project}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl")
    assert bool(proved("stable ABI", path, expectation=Expectation(spans=("torch",)))) == stable


def test_names_that_are_too_long_to_be_searched(tmp_path, monkeypatch):
    files = {MODULE: elf(undefined=["_ZN2at4_ops5zeros4callEv"], versions={"libc.so.6": ["GLIBC_2.17"]})}
    path, expectation = wheel(tmp_path, files), Expectation(spans=("numpy", "torch"))
    assert proved("platform", path, expectation=expectation)
    monkeypatch.setattr("gpuforge.binary.elf.header.LONGEST", 20)
    for topic in ("stable ABI", "platform"):
        assert proved(topic, path, expectation=expectation) == [], topic


def linked_with(*plain: bytes) -> dict[str, bytes]:
    """Return a library of a device link, whose input has the PTX, and of containers that were not linked."""
    results = b"".join([fatbin("sm_80", "sm_90"), *plain])
    inputs = fatbin("sm_80", "compute_90:8.7", "sm_90")
    return {"demo/libk.so": elf(sections={".nv_fatbin": results, "__nv_relfatbin": inputs})}


@pytest.mark.parametrize(
    ("plain", "declared", "codes"),
    [
        pytest.param([], True, [], id="only the result of the link"),
        pytest.param([fatbin("sm_80", "sm_90", "compute_90:8.7")], True, [], id="with PTX of its own"),
        pytest.param([fatbin("sm_80", "sm_90")], False, [], id="without PTX, as the result is"),
        pytest.param([fatbin("sm_80", "sm_90", "compute_80:8.7")], False, ["GF402"], id="other PTX"),
    ],
)
def test_code_without_ptx_beside_a_device_link(tmp_path, plain, declared, codes):
    path = wheel(tmp_path, linked_with(*plain))
    expectation = Expectation(cubins=(Arch(8, 0), Arch(9, 0)), ptx=(Arch(9, 0),))
    report = audit([path], expectation=expectation)
    (found,) = (text for text in proved("GPU code", path, expectation=expectation))
    assert found.startswith("fatbin containers as declared") == declared
    assert [f.code for f in report.findings if f.code.startswith("GF4")] == codes


def test_the_ptx_of_a_device_link_is_for_its_result(tmp_path):
    for plain, way in (([], "jit"), ([fatbin("sm_80", "sm_90")], "partly")):
        report = audit([wheel(tmp_path, linked_with(*plain))])
        (code,) = report.wheels[0].facts.device
        (newer,) = (each for each in reach(code) if each.generation.capability == "12.0")
        assert (newer.way, newer.jit, newer.none) == (way, 1, len(plain))
        assert [e.target for e in common_images(code.containers)] == (
            ["sm_80", "sm_90"] if plain else ["sm_80", "sm_90", "compute_90"]
        )


HOST_ONLY = Expectation(host_only=(HostOnly("core", ("demo/core.so",)),))


def proved_host_only(folder: Path, *others: Path, **files: bytes) -> list[str]:
    """Return what is proved of demo/core.so; other files by their names in demo."""
    members = {f"demo/{name}.so": data for name, data in files.items()}
    return proved("host-only", wheel(folder, members), *others, expectation=HOST_ONLY)


@pytest.mark.parametrize(
    ("library", "nearest"),
    [
        ("libtorch_cuda.so", "libtorch_cpu.so"),
        ("libtorch_cuda_linalg.so", "libtorch_global_deps.so"),
        ("libtorch_hip.so", "libtorch.so"),
        ("libc10_cuda.so", "libc10.so"),
        ("libonnxruntime_providers_cuda.so", "libonnxruntime_providers_shared.so"),
        ("libggml-cuda.so", "libggml-cpu.so"),
        ("libnvptxcompiler.so", "libnvpair.so"),
        ("libvulkan.so.1", "libvulkano.so.1"),
    ],
)
def test_libraries_of_frameworks_that_need_a_gpu_stack(tmp_path, library, nearest):
    assert proved_host_only(tmp_path, core=elf(needed=[nearest]))
    assert proved_host_only(tmp_path, core=elf(needed=[library])) == []


def test_the_proof_names_the_libraries_that_were_not_read(tmp_path):
    own = elf(soname="libown.so", needed=["libc10.so", "libc.so.6"])
    others = "; what libraries outside of the wheel load was not read: "
    for needed, named in (
        (["libc.so.6", "libstdc++.so.6"], ""),
        (["libtorch.so", "libhelper.so"], f"{others}libhelper.so, libtorch.so"),
        (["own.so", "libc.so.6"], f"{others}libc10.so"),
    ):
        core = elf(needed=needed, runpath="$ORIGIN")
        (found,) = proved_host_only(tmp_path, core=core, own=own)
        assert found.partition(" NEEDED")[2] == named


HEAD = b".version 9.0\n.target sm_90\n"
LTO_IR = bytes.fromhex("ed434e7f 0141 0262 0302 0700 1800 0100 28000000 2c000000 01008403")
INTEL = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, 205)


@pytest.mark.parametrize(
    ("code", "nearest"),
    [
        (HEAD, b".version %d.%d\n.target sm_%d\n"),
        (HEAD, b".version 9.0\n.target sm_%d\n"),
        (b".version 9.0\n//" + b"x" * 9000 + b"\n.target sm_90\n", b".version 9.0\n//x .target sm_90\n"),
        (b".version 9.0 /*" + b"*x" * 9000 + b"*/.target /**/ sm_90", b".version 9.0 /* .target sm_90"),
        (b".gnu.version_r\0.version /*1.0*/ 9.0\n.target\nsm_90", b".version 9.0\0.target sm_90"),
        (b".version 1.0 .version 9.0 .target sm_90", b".version 9.0 .address_size 64"),
        (LTO_IR, LTO_IR[1:]),
        (INTEL, INTEL[:-2] + b"\xcd\x01"),
    ],
)
@pytest.mark.parametrize("before", [b"", b"\0data\0", b"text "])
def test_code_for_gpus_in_the_data_of_a_library(tmp_path, code, nearest, before):
    assert proved_host_only(tmp_path, core=elf(sections={".rodata": before + nearest + b"\0"}))
    assert proved_host_only(tmp_path, core=elf(sections={".rodata": before + code + b"\0"})) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", [b".version 1.0 ", b".version 1.0/*", b"//.version 1.0 ", b".version 1.0//", b".version /"]
)
def test_a_search_for_ptx_reads_each_byte_once(text):
    assert not ptx.occurs(text * 30_000)
    assert not ptx.occurs(text * 30_000 + b"*/\n")


HALIDES = (
    b".version 8.7\n.target sm_50\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n".ljust(200) + b"\0"
)


@pytest.mark.parametrize(
    ("sections", "declared"),
    [
        pytest.param({".rodata": b"k\0"}, True, id="no PTX"),
        pytest.param(
            {".rodata": b".version 8.7\0.target sm_50\0"}, True, id="parts of a text, as LLVM has them"
        ),
        pytest.param({".rodata": b"k\0" + HALIDES}, False, id="a text"),
        pytest.param({".data": b"\t\t" + HALIDES}, False, id="a text that may be written to, indented"),
        pytest.param({".nv_fatbin": fatbin("sm_80"), ".rodata": HALIDES}, False, id="beside a container"),
        pytest.param({".rodata": bytes(5 << 20) + HALIDES}, False, id="in a large file"),
    ],
)
def test_a_text_of_ptx_in_any_library(tmp_path, sections, declared):
    files = {"demo/k.fatbin": fatbin("sm_80"), "demo/libhal.so": elf(sections=sections)}
    path, expectation = wheel(tmp_path, files), Expectation(cubins=(Arch(8, 0),), exact=True)
    found = proved("GPU code", path, expectation=expectation)
    assert all(("as declared" in text) == declared for text in found)
    codes = {f.code for f in audit([path], expectation=expectation).findings}
    assert codes & {"GF401", "GF409"} == (set() if declared else {"GF401", "GF409"})


def test_code_is_not_as_declared_beside_a_file_that_was_not_searched_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    for size, declared in ((1 << 20, True), (9 << 20, False)):
        library = elf(sections={".rodata": bytes(size), ".comment": b"GCC 14\0"})
        path = wheel(tmp_path, {"demo/k.fatbin": fatbin("sm_80"), "demo/libhal.so": library})
        (found,) = proved("GPU code", path, expectation=Expectation(cubins=(Arch(8, 0),)))
        assert (
            found == f"fatbin containers{' as declared' * declared}: 1 of sm_80, no PTX{NOT_READ * declared}"
        )


NEWER = fatbin("sm_75").replace(b"\1\0\x10\0", b"\2\0\x10\0", 1)  # the version of its header
OTHER = fatbin("sm_50")
NOT_SOUGHT = "; sources of kernels, SPIR-V and AMD's code outside of bundles were not looked for"
NOT_READ = f"; not all data that is packed in binaries and texts was read{NOT_SOUGHT}"
TEXT = b".version 8.7\n.target sm_90\n.address_size 64\n.entry k() { ret; }\n"
DISGUISED = bytes(each ^ 90 for each in OTHER)
PNG = b"\x89PNG\r\n\x1a\n"
MUCH = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(100))
NUMPY = b"\x93NUMPY\x01\0v\0" + b"{'descr': '|u1', 'fortran_order': False, 'shape': (8,)}".ljust(118)
INSIDE, UNPACKED = "code inside of other files was not judged: {}", "files were not unpacked: {}"
DATA = "data"
UNKNOWN = "a file of unknown content was not read: {}"
LEFT_OVER = "a file left over from a build was not judged: {}"


def packed(data: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("k.npy", data)
    return stream.getvalue()


def wrapped(text: bytes | str) -> bytes:
    text = text.encode() if isinstance(text, str) else text
    return b"\n".join(text[at : at + 72] for at in range(0, len(text), 72))


def words(data: bytes, size: int, form: str) -> bytes:
    """Write bytes as numbers of so many bytes."""
    numbers = (int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size))
    return b"K = (%s)\n" % ",\n".join(form % number for number in numbers).encode()


def ideographs(data: bytes) -> str:
    return "".join(chr(0x4E00 + each) for each in data)


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as file:
        file.addfile(tarfile.TarInfo("empty"))
    return stream.getvalue()


FAMILIES = "demo/_gpuforge/userbuild/families.py"
OF_RUNTIME = Path(families.__file__).read_bytes()


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        pytest.param("demo/LICENSE", b"MIT\n" * 40, "", id="a text"),
        pytest.param("demo/latin.txt", "Gr\xfc\xdfe, grüezi".encode("latin-1"), "", id="an old text"),
        pytest.param("demo/a.npy", NUMPY + bytes(range(8)), DATA, id="an array"),
        pytest.param("demo/a.npz", packed(NUMPY + bytes(range(8))), DATA, id="arrays"),
        pytest.param("demo/a.csv.gz", gzip.compress(b"1,2\n" * 40), "", id="a packed text"),
        pytest.param("demo/a.mo", b"\xde\x12\x04\x95" + bytes(40), DATA, id="translations"),
        pytest.param("demo/a.png", PNG + bytes(40) + b"IEND\xaeB`\x82", DATA, id="an image"),
        pytest.param("demo/a.png", PNG + DISGUISED, UNKNOWN, id="behind the start of an image"),
        pytest.param("demo/k.exe", b"MZ" + DISGUISED, UNKNOWN, id="behind two letters"),
        pytest.param("demo/k.pyc", b"\xa7\r\r\n" + bytes(12) + DISGUISED, DATA, id="compiled Python"),
        pytest.param("demo/a.py", b"TARGET = '.version and .target sm_90'\n", "", id="words of PTX"),
        pytest.param("demo/flag", b"\0\1\2", "", id="a few bytes"),
        pytest.param("demo/k.h", OTHER, INSIDE, id="a fatbin as a header"),
        pytest.param("demo/k.so", elf(sections={".data": NEWER}), INSIDE, id="a fatbin of another version"),
        pytest.param(
            "demo/k.so",
            elf(sections={".data": NEWER.replace(b"\2\0\x10\0", b"\x0f\x84\x10\0")}),
            "",
            id="code that knows the magic number",
        ),
        pytest.param("demo/k.bin", bytes(range(16)) + OTHER, INSIDE, id="behind other bytes"),
        pytest.param("demo/k.txt", b"text\n" * 200 + OTHER, INSIDE, id="behind a text"),
        pytest.param("demo/k.npy", NUMPY + OTHER, INSIDE, id="in an array"),
        pytest.param("demo/k.npz", packed(OTHER), INSIDE, id="packed"),
        pytest.param("demo/k.npz", packed(NUMPY + OTHER, zipfile.ZIP_STORED), INSIDE, id="stored"),
        pytest.param("demo/k.gz", gzip.compress(packed(OTHER)), INSIDE, id="packed twice"),
        pytest.param("demo/k.gz", gzip.compress(b"a") + gzip.compress(OTHER), INSIDE, id="after it"),
        pytest.param("demo/k.bz2", bz2.compress(OTHER), INSIDE, id="by bzip2"),
        pytest.param("demo/k.xz", lzma.compress(OTHER), INSIDE, id="by xz"),
        pytest.param("demo/k.zst", zstandard.compress(OTHER), INSIDE, id="by zstd"),
        pytest.param("demo/k.z", zlib.compress(OTHER), INSIDE, id="by zlib"),
        pytest.param("demo/k.gz", gzip.compress(b"1,2\n" * 40)[:-9], UNPACKED, id="cut off"),
        pytest.param("demo/k.gz", b"\x1f\x8b\0", UNPACKED, id="three bytes of gzip"),
        pytest.param("demo/k.gz", gzip.compress(b"a") + OTHER[1:], UNPACKED, id="with something behind it"),
        pytest.param("demo/k.bin", zlib.compress(OTHER, wbits=-15), UNKNOWN, id="without a header"),
        pytest.param("demo/k.bin", DISGUISED, UNKNOWN, id="disguised"),
        pytest.param("demo/x.bin", LTO_IR, UNKNOWN, id="LTO-IR"),
        pytest.param("demo/libdevice.bc", b"BC\xc0\xde" + bytes(40), INSIDE, id="bitcode"),
        pytest.param("demo/k.inl", TEXT, INSIDE, id="PTX"),
        pytest.param("demo/k.py", b'K = """' + TEXT + b'"""\n', INSIDE, id="PTX in Python"),
        pytest.param("demo/k.json", json.dumps(TEXT.decode()).encode(), INSIDE, id="PTX with escapes"),
        pytest.param(
            "demo/k.h",
            b"".join(b'"%s\\n"\n' % line for line in TEXT.splitlines()),
            INSIDE,
            id="PTX in the strings of a header",
        ),
        pytest.param("demo/k.py", b"K = %r\n" % OTHER, INSIDE, id="a fatbin in Python"),
        pytest.param("demo/k.py", b"K = '%s'\n" % base64.b64encode(b"1" + OTHER), INSIDE, id="as base64"),
        pytest.param("demo/k.txt", OTHER.hex().upper().encode(), INSIDE, id="in capital digits"),
        pytest.param("demo/k.h", b", ".join(b"0x%02X" % each for each in OTHER), INSIDE, id="as numbers"),
        pytest.param("demo/k.py", b"%r" % list(OTHER), INSIDE, id="as a list"),
        *(
            pytest.param("demo/k.py", words(OTHER, size, form), INSIDE, id=f"numbers as {form!r} of {size}")
            for size, form in (
                (1, "0o%o"),
                (1, "\\u%04x"),
                (2, "0x%04x"),
                (2, "%d"),
                (4, "0x%x"),
                (4, "0x%08XU"),
                (4, "%08x"),
                (4, "%d"),
                (8, "%d"),
            )
        ),
        pytest.param("demo/k.h", words(OTHER, 4, "0x%XUL"), INSIDE, id="numbers with C's suffixes"),
        pytest.param("demo/k.txt", OTHER.hex(":").encode(), INSIDE, id="with colons"),
        *(
            pytest.param(
                "demo/k.py", b"%r" % list(memoryview(OTHER[:16]).cast(size)), INSIDE, id=f"signed {size}"
            )
            for size in "bhi"
        ),
        pytest.param("demo/k.py", words(elf(), 4, "0x%08x"), INSIDE, id="ELF as words"),
        pytest.param("demo/k.py", words(elf(), 8, "%d"), INSIDE, id="ELF as numbers of 64 bits"),
        pytest.param("demo/k.py", words(MUCH, 4, "0x%08x"), "", id="a table of words"),
        pytest.param(
            "demo/k.py", b"[0x50, 0xED, 0x55, 0xBA]\nMAGIC = 0xBA55ED50\n", "", id="what a reader knows"
        ),
        pytest.param("demo/k.py", b'ELF = b"\\x7fELF"\n', "", id="what a reader of ELF knows"),
        pytest.param("demo/k.py", b"K = %r\n" % elf(), INSIDE, id="ELF in Python"),
        pytest.param(
            "demo/k.py",
            b"K = '%s'\n" % base64.b64encode(gzip.compress(MUCH + OTHER)),
            INSIDE,
            id="packed as base64",
        ),
        pytest.param("demo/k.py", b"K = '%s'\n" % base64.b64encode(MUCH), UNKNOWN, id="anything as base64"),
        pytest.param("demo/k.py", b"K = %r\n" % zlib.compress(MUCH), UNKNOWN, id="packed with escapes"),
        pytest.param(
            "demo/k.htm",
            b"<img src='%s'>" % base64.b64encode(b"GIF8" + MUCH + b";"),
            DATA,
            id="an image as base64",
        ),
        *(
            pytest.param("demo/k.py", b'K = """%s"""' % wrapped(written(MUCH)), UNKNOWN, id=name)
            for name, written in {
                "lines of base64": base64.b64encode,
                "of base85": base64.b85encode,
                "of Adobe's": base64.a85encode,
                "of base32": base64.b32encode,
                "of hexadecimal digits": bytes.hex,
                "of numbers": lambda data: b"".join(b"0x%02x, " % each for each in data),
                "of escapes": lambda data: b"".join(b"\\x%02x" % each for each in data),
            }.items()
        ),
        pytest.param(
            "demo/k.csv", wrapped(b",".join(b"%d" % each for each in range(3000))), "", id="a table"
        ),
        pytest.param("demo/k.txt", wrapped(b"/usr/lib/python3/dist-packages/demo/" * 90), "", id="paths"),
        pytest.param("demo/k.a", archive({"k": DISGUISED}), UNKNOWN, id="in an archive"),
        pytest.param(
            "demo/k.a",
            archive({"k": archive({"k": gzip.compress(OTHER)})}),
            INSIDE,
            id="packed, in two archives",
        ),
        pytest.param("demo/k.a", archive({"k": with_ident(elf(), 16, 1)}), "", id="an archive of objects"),
        pytest.param("demo/k.tar", tar() + DISGUISED, UNPACKED, id="behind an archive"),
        pytest.param(
            "demo/k.gz",
            b"\x1f\x8b\x08\x04" + gzip.compress(b"1,2\n" * 40)[4:],
            UNPACKED,
            id="beside its name",
        ),
        pytest.param(
            "demo/k.zst",
            zstandard.compress(b"1,2\n" * 40) + b"P*M\x18" + MUCH,
            UNPACKED,
            id="in a frame that is skipped",
        ),
        pytest.param(
            "demo/k.zip", packed(NUMPY)[:-22] + MUCH + packed(NUMPY)[-22:], UNPACKED, id="between the members"
        ),
        pytest.param("demo/k.so", elf() + DISGUISED, UNKNOWN, id="behind the end of a library"),
        pytest.param("demo/k.js", b"f(x);" * 400, "", id="code in one line"),
        pytest.param("demo/k.txt", TEXT.decode().encode("utf-16"), INSIDE, id="PTX in UTF-16"),
        pytest.param("demo/k.txt", ("a text " * 400).encode("utf-16"), "", id="a text in UTF-16"),
        pytest.param("demo/k.txt", ideographs(OTHER).encode(), DATA, id="bytes as Chinese letters"),
        pytest.param("demo/k.txt", ideographs(OTHER).encode("gb18030"), UNKNOWN, id="in China's encoding"),
        pytest.param("demo/k.txt", TEXT.decode().encode("cp037"), UNKNOWN, id="PTX in EBCDIC"),
        pytest.param(
            "demo/k.txt", "Grüße aus Köln, größer als süß\n".encode("latin-1") * 40, "", id="German"
        ),
        pytest.param("build/lib.linux-x86_64/k.fatbin", OTHER, LEFT_OVER, id="left over from a build"),
        pytest.param("demo/k.so", elf(sections={".text": TEXT}), INSIDE, id="PTX among machine code"),
        pytest.param("demo/k.so", elf(sections={".nvdata": TEXT}), INSIDE, id="in a section by another name"),
        pytest.param("demo/k.ptx", gzip.compress(TEXT), INSIDE, id="a packed file with the name of PTX"),
        pytest.param(FAMILIES, OF_RUNTIME, "", id="gpuforge's patterns of GPU code"),
        pytest.param(FAMILIES, OF_RUNTIME + b"\n", INSIDE, id="like gpuforge's patterns"),
    ],
)
def test_code_is_not_as_declared_beside_a_file_that_may_have_more(tmp_path, file, content, reason):
    path = wheel(tmp_path, {"demo/k.fatbin": fatbin("sm_80"), file: content})
    report = audit([path], expectation=Expectation(cubins=(Arch(8, 0),))).wheels[0]
    name = file.rpartition("/")[2]
    declared, end = (" as declared", NOT_READ) if reason in ("", DATA) else ("", "")
    if reason == DATA:
        reason, end = (
            "",
            f"; not all data that is packed in binaries, texts and 1 other file ({name}) was read{NOT_SOUGHT}",
        )
    assert [p.text for p in report.proofs if p.topic == "GPU code"] == [
        f"fatbin containers{declared}: 1 of sm_80, no PTX{end}"
    ]
    expected = [f"all that was read is as declared, but {reason.format(name)}"] if reason else []
    assert [p.text for p in report.withheld if p.topic == "GPU code"] == expected


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("demo/libcudart.so.12", elf(sections={".nv_fatbin": OTHER}), True),
        ("demo/libcudart.so.12", OTHER, True),
        ("demo/k.vmfb", OTHER, True),
        ("demo/libcudart.so.12", elf(), False),
    ],
)
def test_code_that_is_not_the_projects_by_its_name_is_named(tmp_path, file, content, named):
    path = wheel(tmp_path, {"demo/k.fatbin": fatbin("sm_80"), file: content})
    (text,) = proved("GPU code", path, expectation=Expectation(cubins=(Arch(8, 0),)))
    name = file.rpartition("/")[2]
    words = f"; not compared, as their names are those of files of NVIDIA, compilers or IREE: {name}" * named
    assert text == f"fatbin containers as declared: 1 of sm_80, no PTX{words}{NOT_READ}"


@pytest.mark.parametrize(
    ("containers", "inputs", "linkage", "declared", "codes"),
    [
        pytest.param(["sm_80"], [], "pip", True, [], id="the declared code"),
        pytest.param(["lto_80"], [], "pip", False, ["GF401"], id="only LTO-IR"),
        pytest.param(["sm_80", "lto_80"], [], "pip", False, ["GF401"], id="LTO-IR beside it"),
        pytest.param(["sm_80 lto_80"], [], "pip", False, [], id="LTO-IR in the same container"),
        pytest.param(["sm_80"], ["lto_80"], "pip", True, [], id="the input of its link is LTO-IR"),
        pytest.param(["sm_80"], ["16_80"], "pip", False, [], id="the input of its link is unknown"),
        pytest.param([], ["lto_80"], "pip", False, ["GF401"], id="LTO-IR that was not linked"),
        pytest.param(["16_80"], [], "pip", False, ["GF401"], id="only an unknown image"),
        pytest.param(["sm_80 16_80"], [], "pip", False, [], id="an unknown image beside it"),
        pytest.param(
            ["sm_80", "lto_80"], [], "static", False, [], id="LTO-IR that may be of NVIDIA's library"
        ),
    ],
)
def test_lto_ir_and_unknown_images_are_not_the_declared_code(
    tmp_path, containers, inputs, linkage, declared, codes
):
    sections = {
        name: b"".join(fatbin(*archs.split()) for archs in each)
        for name, each in ((".nv_fatbin", containers), ("__nv_relfatbin", inputs))
        if each
    }
    path = wheel(tmp_path, {"demo/libk.so": elf(sections=sections)})
    expectation = Expectation(cubins=(Arch(8, 0),), linkage=linkage)
    (found,) = proved("GPU code", path, expectation=expectation)
    assert found.startswith("fatbin containers as declared") == declared
    report = audit([path], expectation=expectation)
    assert [f.code for f in report.findings if f.code.startswith("GF4")] == codes


@pytest.mark.parametrize(
    ("code", "named"),
    [("lto_80", "lto-ir compute_80"), ("16_80", "kind-16 compute_80"), ("sm_80", "sm_80"), ("", "")],
)
def test_lto_ir_and_unknown_images_are_found_where_no_code_is_declared(tmp_path, code, named):
    path = wheel(tmp_path, {"demo/k.fatbin": fatbin(*code.split())})
    report = audit([path], expectation=Expectation(no_code=True))
    assert [s.item for f in report.findings if f.code == "GF409" for s in f.subjects] == [
        *filter(None, [named])
    ]


def test_the_proof_names_images_of_unknown_kinds(tmp_path):
    path = wheel(tmp_path, {"demo/k.fatbin": fatbin("sm_80", "16_80")})
    (found,) = proved("GPU code", path)
    assert found == "fatbin containers: 1 of sm_80 + unknown images (kind-16), no PTX"


@pytest.mark.parametrize("files", [{}, {"demo/k.ptx": b"\n" + b".version 9.0\n.target sm_90\n"}])
def test_ptx_that_is_declared_and_empty_is_no_code(tmp_path, files):
    path = wheel(tmp_path, {MODULE: elf(), **files})
    report = audit([path], expectation=Expectation(ptx=(Arch(9, 0),)))
    assert [f.code for f in report.findings if f.severity == "error"] == ["GF401"]


@pytest.mark.parametrize(
    ("targets", "sources", "ends"),
    [
        ({"ml": ()}, ("ops",), []),
        ({}, ("ops",), ["no GPU code of its own."]),
        ({"ml": ()}, (), ["no GPU code of its own but that of toolchains with `targets`."]),
    ],
)
def test_architectures_are_for_the_users_compilers_alone_where_sets_have_other_targets(
    tmp_path, targets, sources, ends
):
    """A set by IREE beside sources for NVRTC: the wheel has no code for CUDA, and promises none."""
    expectation = Expectation(cubins=(Arch(8, 0),), kernel_sets=("ml",), source_sets=sources, targets=targets)
    report = audit([wheel(tmp_path, {MODULE: elf()})], expectation=expectation)
    found = [f.what.partition("contains ")[2] for f in report.findings if f.code == "GF401"]
    assert found == ends


@pytest.mark.parametrize(
    ("data", "matches"),
    [
        pytest.param(fatbin("sm_80", "compute_90:8.7"), True, id="one container"),
        pytest.param(fatbin("sm_80", "compute_90:8.7") * 2, True, id="each container has all images"),
        pytest.param(fatbin("sm_80") + fatbin("compute_90:8.7"), False, id="each has other images"),
        pytest.param(fatbin("sm_80", "compute_90:8.7") + fatbin("lto_80"), False, id="one has LTO-IR"),
    ],
)
def test_the_images_of_a_module_are_those_that_each_container_has(tmp_path, data, matches):
    index = set_of(INDEX, data, CUBIN, PTX)
    files = {f"{SET}index.json": json.dumps(index).encode(), f"{SET}k.fatbin": data}
    assert bool(proved("kernel sets", wheel(tmp_path, files))) == matches


def test_a_damaged_module_does_not_match_its_index(tmp_path):
    whole = fatbin("sm_80", "compute_90:8.7", "sm_90")
    data = whole[:-320] + bytes(320)  # the last entry is of no kind
    index = set_of(INDEX, data, CUBIN, PTX)
    path = wheel(tmp_path, {f"{SET}index.json": json.dumps(index).encode(), f"{SET}k.fatbin": data})
    assert proved("kernel sets", path) == []
    assert "GF705" in {f.code for f in audit([path]).findings}
