"""What an audit holds in memory does not grow with a wheel's size: of thousands of files, or a RECORD without end."""

import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

LIMIT = 200 << 10  # KiB
CUBINS = 16_000  # as flashinfer-cubin has
LINES = 350_000  # of any real wheel less than 100,000
ENDLESS = 1_500_000
INFO = "demo-1.0.dist-info"
# Without the limit of processor time, which a busy machine exceeds: this is about memory.
AUDIT = "from gpuforge.cli import bounded, main; bounded.CPU_SECONDS = 600; main.main()"
# The most memory of a process counts from before its program starts, when it still is its parent: a small one.
MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def cubin(number: int) -> bytes:
    """A cubin of two kernels with half a dozen sections each, as ptxas writes them with -lineinfo; 30 KB."""
    sections = [".strtab", ".symtab", ".debug_line", ".nv.info", ".note.nv.tkinfo"]
    for kernel in (f"kernel_of_a_rather_long_name_{number}_sm100f", f"size_of_shared_memory_{number}"):
        parts = (".text", ".nv.info", ".nv.constant0", ".nv.capmerc.text", ".rela.text", ".nv.merc.nv.info")
        sections += [f"{part}.{kernel}" for part in parts]
    names, headers, data = b"\0", bytes(64), b""
    for name in [*sections, ".shstrtab"]:
        content = (b"%08d" % number) * 200
        if name == ".shstrtab":
            content = names + b".shstrtab\0"
        headers += struct.pack("<IIQQQQIIQQ", len(names), 1, 0, 0, 64 + len(data), len(content), 0, 0, 8, 0)
        names += name.encode() + b"\0"
        data += content
    count = len(sections) + 2
    header = struct.pack(
        "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(data), 0x6006402, 64, 56, 0, 64, count, count - 1
    )
    return b"\x7fELF\x02\x01\x01\x41\x08" + bytes(7) + header + data + headers


def written(path: Path, cubins: int, lines: int) -> Path:
    """Write a wheel of `cubins` loose cubins, with `lines` in its RECORD that are of no file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        names = [
            f"demo/cubins/158f6fa11ef139a098cfddcdddce73ca99d164ad/gemm/{n}.cubin" for n in range(cubins)
        ]
        for number, name in enumerate(names):
            archive.writestr(name, cubin(number))
        with archive.open(f"{INFO}/RECORD", "w") as record:
            for name in [*names, *(f"{INFO}/{file}" for file in ("WHEEL", "METADATA"))]:
                record.write(f"{name},sha256={'A' * 43},\n".encode())
            for number in range(lines):
                record.write(b"demo/gone/%08d.py,sha256=%043d,12\n" % (number, number))
            record.write(f"{INFO}/RECORD,,\n".encode())
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "cubins", "lines", "status", "code"),
    [
        *((form, CUBINS, 0, 0, "GF508") for form in ("text", "json", "sarif", "junit", "markdown")),
        ("text", 0, LINES, 0, "GF703"),
        ("json", 0, LINES, 0, "GF703"),
        ("text", 0, ENDLESS, 1, "GF714"),
    ],
)
def test_no_wheel_takes_more_than_200_megabytes(form, cubins, lines, status, code, tmp_path):
    path = written(tmp_path / "demo-1.0-py3-none-any.whl", cubins, lines)
    command = [
        sys.executable,
        "-c",
        MEASURE,
        sys.executable,
        "-c",
        AUDIT,
        "audit",
        "--format",
        form,
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr[-2000:]
    assert code in done.stdout or form == "junit"
    assert int(done.stderr.split()[-1]) < LIMIT
