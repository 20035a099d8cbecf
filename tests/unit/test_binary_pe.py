"""The reader of PE files, on files as link.exe writes them, and on broken ones."""

import struct
from pathlib import Path

import pytest
from audit_samples import fatbin, wheel
from pe_samples import dll

from gpuforge.audit import audit
from gpuforge.audit.model import WheelFacts
from gpuforge.binary import pe
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError, TooLargeError

NAME = "demo-1.0-cp312-cp312-win_amd64.whl"


def read(data: bytes) -> pe.PeFile:
    found = pe.read(Window.of(data), "demo/a.dll")
    assert found is not None
    return found


@pytest.mark.parametrize("machine", ["win32", "win_amd64", "win_arm64"])
@pytest.mark.parametrize("by_address", [False, True])
def test_the_imports_of_each_processor(machine, *, by_address):
    found = read(
        dll("KERNEL32.dll", "a.dll", delayed=["b.dll", "c.dll"], machine=machine, by_address=by_address)
    )
    assert (found.machine, found.is_dll) == (machine, True)
    assert found.imports == ("kernel32.dll", "a.dll")
    assert found.delayed == ("b.dll", "c.dll")


def test_a_program_of_dos_is_none_of_windows():
    assert pe.read(Window.of(b"MZ".ljust(200, b"\0")), "a.exe") is None
    assert pe.read(Window.of(b"MZ"), "a.exe") is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data[:0x420], "it ends at byte 1056"),
        (lambda data: data.replace(struct.pack("<I", 0x1008), struct.pack("<I", 0x9000)), "in no section"),
        (lambda data: data.replace(b"\x0b\x02", b"\x0c\x02"), "unknown number 0c02"),
        (lambda data: data[:0x46] + b"\xff\xff" + data[0x48:], "65,535 sections"),
    ],
)
def test_broken_files_are_refused_with_the_reason(change, problem):
    assert callable(change)
    with pytest.raises(MalformedError, match=problem):
        read(change(dll("a.dll")))


def test_a_table_of_dlls_without_end_is_refused():
    data = bytearray(dll("a.dll"))
    struct.pack_into("<I", data, 0x40 + 24 + 112 + 8, 0x1000 + len(data) - 0x400 - 10)
    with pytest.raises(MalformedError, match="no end"):
        read(bytes(data))


def test_a_million_entries_end_with_the_budget():
    with pytest.raises(TooLargeError):
        read(dll(*["x" * 400] * 100_000))


def facts(folder: Path, files: dict[str, bytes], name: str = NAME) -> WheelFacts:
    return audit([wheel(folder, files, name=name)]).wheels[0].facts


def test_gpu_code_is_found_in_the_sections_that_cuda_names(tmp_path):
    code = fatbin("sm_90", "compute_90:8.4")
    found = facts(
        tmp_path, {"demo/a.pyd": dll("python312.dll", sections={".nv_fatb": code, "__nv_rel": code})}
    )
    assert [c.section for each in found.device for c in each.containers] == [".nv_fatbin", "__nv_relfatbin"]
    assert found.machine == "x86_64"


def test_tables_far_from_the_beginning_are_read(tmp_path):
    data = dll("a.dll", delayed=["b.dll"])
    moved = bytearray(data[:0x400] + bytes(3 << 20) + data[0x400:])
    at = moved.index(b".rdata")
    struct.pack_into("<I", moved, at + 20, 0x400 + (3 << 20))
    (found,) = facts(tmp_path, {"demo/a.dll": bytes(moved)}).pe
    assert (found.imports, found.delayed) == (("a.dll",), ("b.dll",))


def test_a_wheel_for_linux_has_no_files_of_windows(tmp_path):
    files = {"demo/a.dll": dll("a.dll"), "demo/gui.exe": dll("a.dll", program=True)}
    assert facts(tmp_path, files, name="demo-1.0-py3-none-any.whl").pe == ()


def test_nothing_is_proved_of_dlls_and_the_reason_is_given(tmp_path):
    report = audit([wheel(tmp_path, {"demo/a.pyd": dll("python312.dll", "KERNEL32.dll")}, name=NAME)])
    assert not report.wheels[0].findings
    assert not report.wheels[0].proofs
    (withheld,) = report.wheels[0].withheld
    assert withheld.topic == "platform"
    assert withheld.text.startswith("imported DLLs by their names: 1 from Python, 1 from Windows. Not judged")
