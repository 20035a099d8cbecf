"""What is fuzzed: each target has a reader, seeds that reach all of it, and a mutator that knows where its fields are.

`make fuzz` runs them with atheris for as long as one likes, and the unit tests with a few hundred fixed changes.
"""

import base64
import gzip
import io
import json
import lzma
import random
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from audit_samples import elf, fatbin, image, wheel
from document_samples import INDEX
from hip_samples import bundle
from kernel_samples import CUBIN_13_0, CUBIN_13_0_OF_120, FATBIN_12_4
from object_samples import archive, relocatable
from pe_samples import dll

from gpuforge.audit import audit
from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.read import contents, openings
from gpuforge.binary import ar, hip, kernels, pe
from gpuforge.binary import fatbin as fatbins
from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.header import read_header
from gpuforge.binary.elf.object_file import ObjectFile
from gpuforge.binary.elf.reader import outline, read
from gpuforge.binary.window import Budget, Window
from gpuforge.errors import MalformedError, TooLargeError
from gpuforge.wheel.archive import Archive

_LIMITS = ((20, 0), (31, 0), (32, 1), (63, 0), (64, 1))
_NUMBERS = (0, 1, 2, 0x3F, 0x40, 0x7F, 0xFF, 0xFFF, 0xFFFF, *((1 << bits) - down for bits, down in _LIMITS))
_INDEX = "demo/_gpuforge/kernels/k/index.json"
_ODD: tuple[object, ...] = (None, 1, -1, 1.5, True, "", "\ud800", [], {}, [[]], [{}], {"a": []}, "9" * 5000)


class Target(NamedTuple):
    """A reader, which may raise nothing but the two errors of hostile bytes, and what it is given."""

    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    mutate: Callable[[bytes, random.Random], bytes]


def _reading(*readers: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """Return what passes bytes to each of these readers."""

    def run(data: bytes) -> None:
        for reader in readers:
            with suppress(MalformedError, TooLargeError):
                reader(data)

    return run


def _linked(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        linked_file.read(Path(file.name))


_readers = _reading(
    _linked,
    lambda data: read(Window.of(data), patterns().every),
    lambda data: outline(Window.of(data), read_header(Window.of(data))),
)


def _contents(data: bytes) -> None:
    reader = contents.Reader(Budget(len(data)))
    reader.add("demo/data.bin", data)
    reader.contents()


def _opened(data: bytes) -> None:
    """Read Python code as the audit does, and to the names of libraries as for `--against`."""
    with tempfile.TemporaryDirectory() as folder:
        path = wheel(Path(folder), {"demo/a.so": elf(), "demo/m.py": data})
        _audited(path)
        with Archive(path) as opened:
            openings.of_wheel(opened)


_objects = _reading(
    lambda data: ObjectFile(data).symbols,
    lambda data: ObjectFile(data).comments,
    lambda data: ObjectFile(data).needed,
    lambda data: [*ObjectFile(data).debug(), *ObjectFile(data).unpacked()],
)


def _images(data: bytes) -> None:
    for each, content in fatbins.images(data):
        (kernels.of_ptx if each.kind == "ptx" else kernels.of_cubin)(content)


def _members(data: bytes) -> None:
    assert sum(len(member.data or b"") for member in ar.members(data)) <= len(data)


def _containers(data: bytes) -> None:
    scanner = fatbins.Scanner(len(data))
    for offset in range(0, len(data), 97):  # in pieces that cut headers
        scanner.feed(offset, data[offset : offset + 97])
    scanner.finish()
    assert [c[:2] for c in scanner.containers] == [c[:2] for c in fatbins.scan(data)]


def _audited(path: Path) -> None:
    report = audit([path])
    assert not [p for p in report.problems if "itself failed" in p.message], report.problems


def _archive(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
        path.write_bytes(data)
        _audited(path)


def _member(name: str) -> Callable[[bytes], None]:
    """Return a reader of a whole wheel that has the bytes as one of its files."""

    def run(data: bytes) -> None:
        written = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(_WHEEL)) as sound, zipfile.ZipFile(written, "w") as changed:
            for info in sound.infolist():
                changed.writestr(info.filename, data if info.filename == name else sound.read(info))
        _archive(written.getvalue())

    return run


def _fields(data: bytes, chance: random.Random) -> bytes:
    """Write special numbers of 2, 4 or 8 bytes over aligned fields, mostly those of headers; sometimes cut the end."""
    copy = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        size = chance.choice((2, 4, 8))
        near = min(len(copy), 512)
        start = (
            0 if chance.random() < 0.5 else max(0, len(copy) - near)
        )  # of ELF and zip, headers are at both ends
        at = (start + chance.randrange(max(1, near))) // 2 * 2
        number = chance.choice((*_NUMBERS, len(copy), at)) & ((1 << 8 * size) - 1)
        copy[at : at + size] = number.to_bytes(size, "little")
    if chance.random() < 0.1:
        copy[chance.randrange(len(copy) + 1) :] = chance.randbytes(chance.choice((0, 0, 64)))
    return bytes(copy)


def _lines(data: bytes, chance: random.Random) -> bytes:
    """Repeat, join, cut and swap the lines of a text, and put bytes into them that parsers trip over."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            lines[at] *= chance.choice((2, 100, 3000))
        case 1:
            lines.insert(
                at, chance.choice((b"", b" folded", b"\xff\xfe", b'"', b"(" * 300, b"Requires-Dist: x; "))
            )
        case 2:
            lines[at] += chance.choice(
                (b"(" * 400, b"; extra == 'x'" * 200, b">=" + b"9" * 5000, b"\0", b"[a,b]")
            )
        case 3:
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
        case _:
            chance.shuffle(lines)
    return b"\n".join(lines)


def _values(data: bytes, chance: random.Random) -> bytes:
    """Put values of other types into a JSON document, at any depth."""

    def changed(value: object) -> object:
        if chance.random() < 0.15:
            return chance.choice(_ODD)
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        return [changed(each) for each in value] if isinstance(value, list) else value

    try:
        return json.dumps(changed(json.loads(data))).encode()
    except (ValueError, RecursionError):
        return data


def _wheel() -> bytes:
    kernel = fatbin("sm_80", "compute_80:8.7")
    objects = {
        "demo/a.so": elf(
            needed=("libcudart.so.12", "libb.so"), soname="a.so", sections={".nv_fatbin": kernel}
        ),
        "demo/libb.so": elf(soname="libb.so", runpath="$ORIGIN", versions={"libc.so.6": ["GLIBC_2.17"]}),
        "demo/m.py": b"import ctypes\nctypes.CDLL('libb.so')\n",
        "demo/_gpuforge/kernels/k/k.fatbin": kernel,
        _INDEX: _LISTING,
    }
    with tempfile.TemporaryDirectory() as folder:
        requires = [
            "nvidia-cuda-runtime-cu12>=12.1,<13",
            "torch[x]==2.*; extra == 'gpu' and os_name == 'posix'",
        ]
        return wheel(Path(folder), objects, requires=requires).read_bytes()


_LISTING = json.dumps(INDEX).encode()
_WHEEL = _wheel()
_METADATA = (
    b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: numpy (>=1); extra == 'x'\nTag: a-b-c\n"
)
_OBJECT = elf(
    needed=("libcudart.so.12",),
    soname="a.so",
    rpath="$ORIGIN:/x",
    versions={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.2.5"]},
    sections={
        ".comment": b"GCC: 1\0",
        ".rodata": b"libcudnn.so.9\0",
        ".note": bytes(40),
        ".debug_str": b"x\0",
    },
    undefined=("cudaMalloc", "PyInit_x"),
    defined=("f",),
)
_RELOCATABLE = relocatable(
    {".debug_str": b"NVC++ 22.1-0\0"}, wants=["cudaMalloc"], gives=["f"], compressed=[".debug_str"]
)
_AR = {"a.o": b"one", "a_name_that_is_longer_than_sixteen.o": b"four", "dir/b.o": b""}
_CODE = b"""import ctypes, os, sys
from . import ext
NAME = 'libx.so.%d'
if sys.platform == 'win32' or int(os.getenv('X', '0')):
    os.add_dll_directory(x)
def load(name):
    if os.environ.get('X', '0') == '1':
        return ctypes.CDLL(name)
    return ctypes.cdll.LoadLibrary(os.path.join(os.path.dirname(__file__), f'lib{name}.so'))
for each in ['a', 'b']:
    load(each)
"""
_PACKED = (
    gzip.compress(_AR["a.o"] * 9),
    lzma.compress(bytes(99)),
    _WHEEL,
    b"'%s'" % base64.b64encode(bytes(3000)),
    "\ufeffa".encode("utf-16"),
)
_LZ4 = image("sm_90", size=4096, compressed=64)
TARGETS = {
    "elf": Target(_readers, (_OBJECT, elf(interpreter="/lib64/ld.so"), elf(machine=190)), _fields),
    "object": Target(_objects, (_RELOCATABLE, _OBJECT), _fields),
    "kernels": Target(
        _reading(_images, kernels.of_cubin), (CUBIN_13_0, CUBIN_13_0_OF_120, FATBIN_12_4), _fields
    ),
    "ptx": Target(_reading(kernels.of_ptx), (b".entry f(\n.param .u64 a, .param .b8 b[4])\n{}\n",), _lines),
    "ar": Target(
        _reading(_members), tuple(archive(_AR, style=style) for style in ("gnu", "bsd", "thin")), _fields
    ),
    "fatbin": Target(
        _containers,
        (fatbin("sm_80", "sm_90a", "compute_90:8.7"), _LZ4, fatbin("sm_80") + bytes(8)),
        _fields,
    ),
    "pe": Target(
        _reading(
            lambda data: pe.read(Window.of(data), "a.dll"), lambda data: list(pe.tables(Window.of(data)))
        ),
        (dll("a.dll", delayed=["b.dll"]), dll("a.dll", delayed=["b.dll"], machine="win32", by_address=True)),
        _fields,
    ),
    "hip": Target(
        _reading(lambda data: list(hip.bundles([data], 0, len(data), Budget(len(data))))),
        (bundle("gfx90a"), bundle("gfx90a", packed=2), bundle("gfx90a", packed=3, method=0)),
        _fields,
    ),
    "contents": Target(_reading(_contents), _PACKED, _fields),
    "openings": Target(_reading(_opened), (_CODE,), _lines),
    "archive": Target(_archive, (_WHEEL,), _fields),
    "metadata": Target(_member("demo-1.0.dist-info/METADATA"), (_METADATA,), _lines),
    "record": Target(_member("demo-1.0.dist-info/RECORD"), (b'demo/a.so,sha256=x,1\n"a,b",,\n',), _lines),
    "index": Target(_member(_INDEX), (_LISTING,), _values),
}
