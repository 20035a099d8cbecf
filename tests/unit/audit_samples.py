"""Makes small ELF files, fatbins and wheels for the audit's tests, byte by byte, without any compiler."""

import base64
import hashlib
import json
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from document_samples import INDEX, MODULE

from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.findings import Finding
from gpuforge.audit.judge import Report
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read import wheel as reader
from gpuforge.binary.elf.file import version_hash

STATIC_CUDART = patterns().every.text.text
EXEC_STACK = 7
FLAGS_1 = 0x6FFFFFFB
RELRO = 0x6474E552
ALLOC = 2  # SHF_ALLOC
_KINDS = {"compute": 1, "sm": 2, "lto": 8}
DT = {"needed": 1, "strtab": 5, "strsz": 10, "soname": 14, "rpath": 15, "runpath": 29, "filter": 0x7FFFFFFF}


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        found = self.data.find(b"\0" + text.encode() + b"\0")
        if found >= 0:
            return found + 1
        offset = len(self.data)
        self.data += text.encode() + b"\0"
        return offset


def elf(
    *,
    soname: str = "",
    needed: Sequence[str] = ("libc.so.6",),
    rpath: str | None = None,
    runpath: str | None = None,
    filters: Sequence[str] = (),
    versions: Mapping[str, Sequence[str]] | None = None,
    stack: int = 6,
    interpreter: str = "",
    sections: Mapping[str, bytes] | None = None,
    strings: Sequence[str] = (),
    machine: int = 62,
    dynamic: Sequence[tuple[int, int]] = (),
    undefined: Sequence[str] = (),
    defined: Sequence[str] = (),
    segment: tuple[int, bytes] = (RELRO, b""),
    page: int = 1 << 16,
) -> bytes:
    """A 64-bit little-endian shared object: headers, version needs, dynamic section, sections; no code.

    `segment` is the type and content of its fourth program header, unless it has an interpreter.
    """
    table = _Strings()
    for text in strings:
        table.add(text)
    dynamic = [*dynamic, *((DT["needed"], table.add(name)) for name in needed)]
    dynamic += [(DT["filter"], table.add(name)) for name in filters]
    dynamic += [(DT["soname"], table.add(soname))] if soname else []
    dynamic += [(DT["rpath"], table.add(rpath))] if rpath is not None else []
    dynamic += [(DT["runpath"], table.add(runpath))] if runpath is not None else []
    symbols = b"".join(struct.pack("<IBBHQQ", table.add(name), 16, 0, 0, 0, 0) for name in undefined)
    symbols += b"".join(struct.pack("<IBBHQQ", table.add(name), 16, 0, 1, 0, 0) for name in defined)
    sections = {**(sections or {}), **({".dynsym": symbols} if symbols else {})}
    needs = _version_needs(versions or {}, table)
    base = 64 + 56 * 4
    numbers = bytes(2 * len([*undefined, *defined])) or b"\0" if versions else b""
    parts = {
        "needs": needs,
        "numbers": numbers,
        "interp": interpreter.encode() + b"\0" + segment[1],
        "strings": table.data,
    }
    offsets, position = {}, base
    for name, data in parts.items():
        offsets[name], position = position, position + len(data)
    dynamic += [(DT["strtab"], offsets["strings"]), (DT["strsz"], len(table.data))]
    dynamic += [(0x6FFFFFFE, offsets["needs"]), (0x6FFFFFFF, len(versions))] if versions else []
    dynamic += [(0x6FFFFFF0, offsets["numbers"])] if versions else []
    packed = b"".join(struct.pack("<qQ", *entry) for entry in [*dynamic, (0, 0)])
    offsets["dynamic"] = position
    body = b"".join(parts.values()) + packed
    tail, shoff, count = _sections(base + len(body), sections or {})
    size = base + len(body) + len(tail)
    segments = [
        (1, 7, 0, size),
        (2, 6, offsets["dynamic"], len(packed)),
        (0x6474E551, stack, 0, 0),
        (3, 4, offsets["interp"], len(parts["interp"]))
        if interpreter
        else (segment[0], 4, offsets["interp"] + 1, len(segment[1])),
    ]
    table_of_segments = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, start, start, start, length, length, page if kind == 1 else 8)
        for kind, flags, start, length in segments
    )
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, shoff, 0, 64, 56, 4, 64, count, count - 1 if count else 0
    )
    return ident + header + table_of_segments + body + tail


def with_ident(data: bytes, index: int, value: int) -> bytes:
    """An ELF file with another byte in its e_ident: 7 is the OS ABI, 8 the version of that."""
    return data[:index] + bytes([value]) + data[index + 1 :]


def _version_needs(versions: Mapping[str, Sequence[str]], table: _Strings) -> bytes:
    data = b""
    for index, (library, names) in enumerate(versions.items()):
        last = index == len(versions) - 1
        size = 16 + 16 * len(names)
        data += struct.pack("<HHIII", 1, len(names), table.add(library), 16, 0 if last else size)
        for number, name in enumerate(names):
            data += struct.pack(
                "<IHHII", version_hash(name), 0, 2, table.add(name), 0 if number == len(names) - 1 else 16
            )
    return data


def _sections(offset: int, sections: Mapping[str, bytes]) -> tuple[bytes, int, int]:
    if not sections:
        return b"", 0, 0
    names = _Strings()
    data, headers = b"", bytes(64)
    for name, content in sections.items():
        data += bytes(-(offset + len(data)) % 8)
        flags = ALLOC if name.startswith((".rodata", ".data", ".nv_fatbin")) else 0
        headers += struct.pack(
            "<IIQQQQIIQQ", names.add(name), 1, flags, 0, offset + len(data), len(content), 0, 0, 8, 0
        )
        data += content
    shstrtab = names.add(".shstrtab")
    headers += struct.pack("<IIQQQQIIQQ", shstrtab, 3, 0, 0, offset + len(data), len(names.data), 0, 0, 1, 0)
    data += names.data
    data += bytes(-(offset + len(data)) % 8)
    return data + headers, offset + len(data), len(sections) + 2


def image(arch: str, *, size: int = 256, compressed: int = 0, content: bytes = b"") -> bytes:
    """A fatbin entry: "sm_90a" is a cubin, "compute_80:8.7" PTX of that ISA, "lto_80" LTO-IR, "16_80" of kind 16.

    It is of nothing but zeros by default.
    """
    target, _, isa = arch.partition(":")
    kind, number = target.split("_")
    flags = {"a": 0x100000, "f": 0x200000}.get(number[-1], 0) | (0x2000 if compressed else 0)
    major, minor = (int(n) for n in (isa or "1.8").split("."))
    size = max(size, len(content))
    stored = compressed or size
    payload = content.ljust(stored + -stored % 8, b"\0")
    header = struct.pack(
        "<HHIQIIHHIIIQQQ", _KINDS.get(kind) or int(kind), 0x101, 64, len(payload), compressed, 0, minor, major,
        int(number.rstrip("af")), 0, 0, flags | 0x11, 0, size if compressed else 0,
    )  # fmt: skip
    return header + payload


def fatbin(*archs: str) -> bytes:
    """A fatbin container with one image for each architecture."""
    entries = b"".join(image(arch) for arch in archs)
    return b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(entries)) + entries


def read(path: Path, jobs: int = 1) -> WheelFacts:
    """Read a wheel as the audit does."""
    return reader.read(path, patterns(), jobs)


def wheel(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    name: str = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
    requires: Sequence[str] = (),
    tags: Sequence[str] | None = None,
    record: Mapping[str, str] | None = None,
    purelib: bool = False,
    python: str = "",
    extras: Sequence[str] | None = None,
    headers: Sequence[str] = (),
) -> Path:
    """Write a wheel with `files` and more `headers` of METADATA; `record` replaces lines of RECORD ("" drops one).

    METADATA provides the extras that `requires` has, unless `extras` are given.
    """
    named = dict.fromkeys(name for line in requires for name in re.findall(r"extra == [\"']([\w.-]+)", line))
    project, version, *rest = name.removesuffix(".whl").split("-")
    info = f"{project}-{version}.dist-info"
    pure = str(purelib).lower()
    lines = [f"Tag: {tag}" for tag in (tags if tags is not None else ["-".join(rest)])]
    held = {
        **files,
        f"{info}/METADATA": "\n".join(
            [
                "Metadata-Version: 2.1",
                f"Name: {project}",
                f"Version: {version}",
                *(f"Requires-Dist: {r}" for r in requires),
                *([f"Requires-Python: {python}"] if python else []),
                *(f"Provides-Extra: {extra}" for extra in (named if extras is None else extras)),
                *headers,
                "",
            ]
        ).encode(),
        f"{info}/WHEEL": "\n".join(["Wheel-Version: 1.0", f"Root-Is-Purelib: {pure}", *lines, ""]).encode(),
    }
    held |= files  # also a WHEEL of their own
    rows = {member: f"{member},sha256={_digest(data)},{len(data)}" for member, data in held.items()}
    rows |= record or {}
    rows[f"{info}/RECORD"] = f"{info}/RECORD,,"
    folder.mkdir(exist_ok=True)
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in held.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/RECORD", "\n".join(filter(None, rows.values())) + "\n")
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


CU12, CU13 = "$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/../nvidia/cu13/lib"


def lib(file: str, **keys: object) -> bytes:
    return elf(soname=file.rpartition("/")[2], **keys)  # type: ignore[arg-type]


TAGS = "cp311-cp311-manylinux_2_17_x86_64"
RUNTIME = "$ORIGIN/../../nvidia/cuda_runtime/lib"


def said(report: Report, code: str) -> list[Finding]:
    return [f for f in report.findings if f.code == code]


def torch(folder: Path) -> Path:
    files = {
        "torch/_C.cpython-311-x86_64-linux-gnu.so": elf(
            needed=["libtorch_python.so"], runpath="$ORIGIN/lib", strings=["PyInit__C"]
        ),
        "torch/lib/libtorch_python.so": elf(
            soname="libtorch_python.so", needed=["libc10.so", "libgomp-0a1b2c3d.so.1"], runpath="$ORIGIN"
        ),
        "torch/lib/libc10.so": elf(soname="libc10.so", needed=["libcudart.so.12"], runpath=RUNTIME),
        "torch/lib/libgomp-0a1b2c3d.so.1": elf(soname="libgomp.so.1"),
    }
    return wheel(folder, files, name=f"torch-2.4.1-{TAGS}.whl", requires=["nvidia-cuda-runtime-cu12"])


NVOMP = "demo.libs/libnvomp-fb1a2b9f.so"
CUDART = "demo.libs/libcudart-4554289f.so.13.0.96"
LIBS = "$ORIGIN/../demo.libs"


def grafted(path: str) -> bytes:
    return elf(soname=path.rpartition("/")[2])


def user_of(*paths: str, **keys: object) -> bytes:
    return elf(needed=[path.rpartition("/")[2] for path in paths], runpath=LIBS, **keys)  # type: ignore[arg-type]


KERNEL = fatbin("sm_80", "compute_90:8.7")


def index(**change: object) -> bytes:
    module = {
        **MODULE, "sha256": sha256(KERNEL).hexdigest(),
        "images": [{"kind": "cubin", "arch": "sm_80"}, {"kind": "ptx", "arch": "compute_90", "isa": "8.7"}],
    }  # fmt: skip
    return json.dumps({**INDEX, "modules": [module | change]}).encode()


SET = "demo/_gpuforge/kernels/k/"
