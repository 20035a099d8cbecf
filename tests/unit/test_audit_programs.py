"""Programs in wheels: who starts them, and what they find without anything imported."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf, said, wheel

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines


def test_a_program_starts_with_nothing_imported(tmp_path: Path) -> None:
    program = elf(needed=["libc10.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    report = audit([wheel(tmp_path, {"demo/bin/tool": program}, requires=["torch"])])
    assert [f.severity for f in said(report, "GF202")] == ["error"]
    assert (
        audit([wheel(tmp_path, {"demo/x.so": elf(needed=["libc10.so"])}, requires=["torch"])]).worst() is None
    )


STARTER = b"import os, subprocess\nos.environ['LD_LIBRARY_PATH'] = libs\nsubprocess.call([tool])\n"


@pytest.mark.parametrize(
    ("file", "text", "severity"),
    [
        ("demo/run.py", STARTER, "warning"),
        ("other/run.py", STARTER, "error"),
        ("demo/run.py", STARTER.replace(b"LD_LIBRARY_PATH", b"PATH"), "error"),
        ("demo/run.py", b"print(os.environ['LD_LIBRARY_PATH'])\n", "error"),
    ],
)
def test_python_code_may_start_programs(tmp_path: Path, file: str, text: bytes, severity: str) -> None:
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"demo/bin/tool": program, "demo/lib/libx.so": elf(soname="libx.so"), file: text}
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF202")] == [severity]


@pytest.mark.parametrize(
    ("file", "code", "severity"),
    [
        ("demo/worker", {}, "warning"),
        ("demo/worker", {"demo/__init__.py": b"x = 1\n"}, "error"),
        ("demo/bin/worker", {}, "error"),
    ],
)
def test_a_program_in_a_wheel_without_code_is_started_by_others(
    tmp_path: Path, file: str, code: dict[str, bytes], severity: str
) -> None:
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    report = audit([wheel(tmp_path, {file: program, "demo/lib/libx.so": elf(soname="libx.so"), **code})])
    assert [f.severity for f in said(report, "GF202")] == [severity]


SCRIPT, CONSOLE = "demo-1.0.data/scripts/tool", "demo-1.0.dist-info/entry_points.txt"


@pytest.mark.parametrize(
    ("beside", "severity"),
    [
        # code that is not known here
        ({SCRIPT: b"#!python\nfrom runner.run import start\nstart()\n"}, "warning"),
        ({SCRIPT: b"#!python\nimport os, sys\nos.execv(sys.argv[1], [])\n"}, "error"),
        ({SCRIPT: b"#!python\nfrom demo.run import start\n", "demo/run.py": b"start = 1\n"}, "error"),
        ({SCRIPT: b"#!python\nfrom demo.run import start\n", "demo/run.py": STARTER}, "warning"),
        ({SCRIPT: b"#!/bin/sh\n"}, "error"),
        ({SCRIPT[:-4] + "other": b"#!python\nfrom runner.run import start\n"}, "error"),
        # as auditwheel makes them
        ({SCRIPT: b"#!python\nimport os, sysconfig\nos.execv(tool, [])\n"}, "error"),
        (
            {
                CONSOLE: b"[console_scripts]\ntool = demo:start\n",
                "demo-1.0.data/purelib/demo.py": b"start = 1\n",
            },
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\ntool = runner.run:start\n"}, "warning"),
        (
            {CONSOLE: b"[console_scripts]\nother = runner.run:start\n[demo]\ntool = runner.run:start\n"},
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\n tool=runner.run : start [fast]\n"}, "warning"),
        (
            {CONSOLE: b"[console_scripts]\nother = runner.run:start\n[ demo ]\ntool = runner.run:start\n"},
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\n# tool = runner.run:start\n"}, "error"),
        ({CONSOLE: b"[console_scripts]\ntool = runner.run:start\nother\n"}, "error"),  # pip refuses it
        ({CONSOLE: b"[console_scripts]\ntool = demo.run:start\n", "demo/run.py": STARTER}, "warning"),
        ({CONSOLE: b"[console_scripts]\ntool = demo.run:start\n", "demo/run.py": b"start = 1\n"}, "error"),
    ],
)
def test_what_is_called_like_a_program_may_start_it(
    tmp_path: Path, beside: dict[str, bytes], severity: str
) -> None:
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"prefix/bin/tool": program, "prefix/lib/libx.so": elf(soname="libx.so"), **beside}
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert found.severity == severity
    assert ("LD_LIBRARY_PATH" in found.message) == (severity == "warning")


@pytest.mark.parametrize(
    ("file", "code", "severity"),
    [
        ("libpart.so", {}, "warning"),  # who loads libcore.so has a path to both
        ("parts/libpart.so", {}, "error"),
        ("libpart.so", {"demo/__init__.py": b"x = 1\n"}, "error"),
    ],
)
def test_a_wheel_of_libraries_is_for_others(
    tmp_path: Path, file: str, code: dict[str, bytes], severity: str
) -> None:
    data = "demo-1.0.data/data/lib"
    files = {
        f"{data}/libcore.so": elf(soname="libcore.so"), f"{data}/{file}": elf(needed=["libcore.so"]), **code
    }  # fmt: skip
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF202")] == [severity]


def test_a_program_finds_the_libraries_of_packages_by_their_folders(tmp_path: Path) -> None:
    needed = ["libcuopt_mathopt.so", "libcudss.so.0", "libcudss.so.7"]  # no table has the last one
    requires = ["libcuopt-mathopt-cu12==26.10.*", "nvidia-cudss-cu12"]
    path = "$ORIGIN/../../libcuopt_mathopt/lib64:$ORIGIN/../../nvidia/cu12/lib"
    found = elf(needed=needed, runpath=path, interpreter="/lib64/ld-linux-x86-64.so.2")
    assert audit([wheel(tmp_path, {"demo/bin/tool": found}, requires=requires)]).worst() == "info"
    (lost,) = said(
        audit(
            [
                wheel(
                    tmp_path,
                    {"demo/bin/tool": elf(needed=needed, interpreter="/lib64/ld-linux-x86-64.so.2")},
                    requires=requires,
                )
            ]
        ),
        "GF202",
    )
    assert (lost.severity, len(lines(lost))) == ("error", len(needed))


@pytest.mark.parametrize(
    ("folder", "severities"),
    [
        ("$ORIGIN/../lib/python3.11/site-packages", []),
        ("$ORIGIN/../lib64/python3.11/site-packages", ["info"]),
    ],
)
def test_a_program_finds_the_packages_of_its_python(
    folder: str, severities: list[str], tmp_path: Path
) -> None:
    program = elf(needed=["liba.so"], runpath=f"{folder}/demo", interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"demo-1.0.data/scripts/demo": program, "demo/liba.so": elf(soname="liba.so")}
    findings = audit([wheel(tmp_path, files)]).findings
    assert [f.severity for f in findings if f.code == "GF202"] == severities
    files["demo-1.0.data/scripts/demo"] = program.replace(b"/python3.11/", b"/pythonx.yz/")
    assert said(audit([wheel(tmp_path, files)]), "GF202")


@pytest.mark.parametrize("file", [SCRIPT, CONSOLE])
def test_a_script_of_empty_lines_takes_no_time(file: str, tmp_path: Path) -> None:
    """It took minutes: each line was searched to the end of the file."""
    files = {"demo/ext.so": elf(needed=["libnuma.so.1"]), file: b"#!python" + b"\n" * 200_000}
    assert said(audit([wheel(tmp_path, files)]), "GF201")


def test_a_command_with_the_name_of_a_library_does_not_open_it(tmp_path: Path) -> None:
    """The linker aborts the process unless code opens libx.so.1 first, and `x` is only a program."""
    files = {
        "demo/ext.cpython-311-x86_64-linux-gnu.so": elf(versions={"libx.so.1": ["LIBX_1"]}),
        CONSOLE: b"[console_scripts]\nx = runner.run:start\n",
    }
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF211")] == ["error"]
    files["demo/a.py"] = b"import ctypes\nctypes.CDLL('libx.so.1')\n"
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF211")] == ["warning"]


def test_a_part_that_is_opened_by_its_bare_name_is_not_there(tmp_path: Path) -> None:
    name = "libcudnn-463fd6d5.so.8.9.7"
    files = {
        f"demo.libs/{name}": elf(soname=name, sections={".rodata": b"\0libcudnn_ops_infer.so.8\0"}),
        "demo/ext.so": elf(needed=[name], runpath="$ORIGIN/../demo.libs"),
    }
    for text, codes in (
        (b"ctypes.CDLL('libcudnn_ops_infer.so.8')\n", ["GF213"]),
        (b"ctypes.CDLL(os.path.join(root, 'libcudnn_ops_infer.so.8'))\n", []),
    ):
        files["demo/a.py"] = b"import ctypes, os\n" + text
        assert [f.code for f in said(audit([wheel(tmp_path, files)]), "GF213")] == codes
