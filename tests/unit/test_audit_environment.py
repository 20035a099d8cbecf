"""`gpuforge audit --env`: what wheels and the packages of an environment bring into one process."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from audit_reports import SCHEMA
from audit_samples import STATIC_CUDART, elf, fatbin, wheel
from environment_samples import environment, one
from golden import hold
from jsonschema import validate

from gpuforge.audit import audit
from gpuforge.audit.judge import Ignore
from gpuforge.audit.read.input import Beside
from gpuforge.audit.report import data, markdown, text
from gpuforge.cli.main import run

CU12, CU13 = "$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/../nvidia/cu13/lib"
LIBRARIES = {
    "nvidia_cuda_runtime_cu12-12.9.79": ("nvidia/cuda_runtime/lib/libcudart.so.12", "libcudart.so.12"),
    "nvidia_cuda_runtime-13.0.96": ("nvidia/cu13/lib/libcudart.so.13", "libcudart.so.13"),
}


def two_majors(folder: Path) -> Path:
    """An environment with a package for CUDA 12, one for CUDA 13, and their runtimes."""
    folder.mkdir()
    old = {
        "old/ext.so": elf(needed=["libcudart.so.12", "libgomp.so.1"], runpath=CU12, strings=["PyInit_ext"]),
        "old/other.so": elf(needed=["libcuda.so.1"], strings=["PyInit_other"]),
    }
    new = {
        "new/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13, strings=["PyInit_ext"]),
        "new/static.so": elf(
            sections={".nv_fatbin": fatbin("sm_80", "compute_90:9.0"), ".rodata": STATIC_CUDART + b"\0"}
        ),
        "new/opens.so": elf(strings=["PyInit_opens"], sections={".rodata": b"\0libcudart.so.12\0"}),
    }
    runtimes = [
        one(folder, project, {file: elf(soname=soname)}) for project, (file, soname) in LIBRARIES.items()
    ]
    packages = [
        one(folder, "old-1.0", old, "nvidia-cuda-runtime-cu12"),
        one(folder, "new-2.0", new, "nvidia-cuda-runtime"),
        one(folder, "alone-3.0", {"alone/ext.so": elf(rpath="/build/lib")}),
    ]
    return environment(folder / "env", *runtimes, *packages)


def test_conflicts_name_the_packages_and_the_process_is_listed(tmp_path):
    report = audit([], beside=Beside(two_majors(tmp_path / "e")))
    assert not report.problems
    assert {f.code for f in report.findings if f.severity != "info"} == {
        "GF104"
    }  # and not GF302 of one alone
    hold("audit/environment.txt", text.render(report, width=100, verbose=True))
    hold("audit/environment.md", markdown.render(report))
    as_data = json.loads(data.dumps(report))
    validate(as_data, SCHEMA)
    runtimes = [x["name"] for x in as_data["together"]["libraries"] if x["kind"] == "CUDA runtime"]
    assert runtimes == ["libcudart.so.12", "libcudart.so.13", "libcudart.so.13"]
    assert as_data["together"]["driver"].startswith("580.")


def test_one_cuda_runtime_is_one(tmp_path):
    """The nearest environment without a conflict: both packages link with the same runtime."""
    runtime, soname = "nvidia_cuda_runtime-13.0.96", "libcudart.so.13"
    users = {
        name: one(
            tmp_path,
            f"{name}-1.0",
            {f"{name}/ext.so": elf(needed=[soname], runpath=CU13, strings=["PyInit_ext"])},
            "nvidia-cuda-runtime",
        )
        for name in ("a", "b")
    }
    library = one(tmp_path, runtime, {LIBRARIES[runtime][0]: elf(soname=soname)})
    report = audit([], beside=Beside(environment(tmp_path / "env", library, *users.values())))
    assert report.findings == ()
    assert report.together is not None
    (found,) = report.together.of_kind("CUDA runtime")
    assert (found.name, found.provider, {use.wheel for use in found.uses}) == (
        soname,
        f"{runtime}.dist-info",
        {"a-1.0.dist-info", "b-1.0.dist-info"},
    )


def test_a_wheel_replaces_its_installed_release(tmp_path):
    folder = two_majors(tmp_path / "e")
    fixed = {"old/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13, strings=["PyInit_ext"])}
    (tmp_path / "new").mkdir()
    path = one(tmp_path / "new", "old-1.1", fixed, "nvidia-cuda-runtime")
    report = audit([path], beside=Beside(folder))
    names = [each.facts.name for each in report.wheels]
    assert names[0] == path.name  # judged, before those beside it
    assert "old-1.0.dist-info" not in names
    assert "GF104" not in {f.code for f in report.findings}


def test_a_wheel_that_the_environment_does_not_allow(tmp_path):
    held = one(tmp_path, "held-1.0", {}, "other<2")
    folder = environment(tmp_path / "env", held, one(tmp_path, "other-1.0", {}))
    for version, codes in (("1.5", set()), ("2.0", {"GF710"})):
        newer = one(tmp_path, f"other-{version}", {})
        assert {f.code for f in audit([newer], beside=Beside(folder)).findings} == codes


@pytest.mark.parametrize(
    ("release", "editable", "accepted", "proved"),
    [
        ("13", False, False, ["no conflict with 2 packages in one process"]),
        ("12", False, False, []),
        ("12", False, True, []),  # what was accepted was found
        ("13", True, False, []),  # what cannot be seen may not fit
    ],
)
def test_what_fits_is_proved(release, editable, accepted, proved, tmp_path):
    def using(project: str, soname: str, path: str, requires: str) -> Path:
        ext = elf(needed=[soname], runpath=path, strings=["PyInit_ext"])
        return one(tmp_path, f"{project}-1.0", {f"{project}/ext.so": ext}, requires)

    runtimes = [one(tmp_path, name, {file: elf(soname=so)}) for name, (file, so) in LIBRARIES.items()]
    user = using("user", "libcudart.so.13", CU13, "nvidia-cuda-runtime")
    folder = environment(tmp_path / "env", runtimes[1], user)
    if editable:
        (folder / "lib" / "python3.11" / "site-packages" / "__editable__.x.pth").write_text("/x\n")
    path, requires = (CU13, "nvidia-cuda-runtime") if release == "13" else (CU12, "nvidia-cuda-runtime-cu12")
    own = using("own", f"libcudart.so.{release}", path, requires)
    ignore = [Ignore("GF104", "known")] if accepted else []
    report = audit([own], beside=Beside(folder), ignore=ignore)
    assert [p.text for p in report.wheels[0].proofs if p.topic == "beside"] == proved


def test_nothing_of_an_environment_runs(tmp_path, capfd):
    folder = two_majors(tmp_path / "e")
    assert run(["audit", "--env", str(folder)]) == 0
    assert "GF104" in capfd.readouterr().out
    assert not (folder / "ran").exists()


def test_binaries_that_no_record_lists_are_in_the_process(tmp_path):
    folder = environment(tmp_path / "env", one(tmp_path, "a-1.0", {"a/ext.so": elf(strings=["PyInit_ext"])}))
    site = folder / "lib" / "python3.11" / "site-packages"
    (site / "lost").mkdir()
    (site / "lost" / "ext.so").write_bytes(elf(needed=["libomp.so"], strings=["PyInit_ext"]))
    (site / "lost" / "data.npy").write_bytes(b"no binary")
    report = audit([], beside=Beside(folder))
    assert [w.facts.name for w in report.wheels] == ["a-1.0.dist-info", "site-packages (in no RECORD)"]
    assert report.together is not None
    (found,) = report.together.of_kind("OpenMP runtime")
    assert (found.origin, found.name) == ("machine", "libomp.so")


def test_packages_that_lie_elsewhere_are_a_problem(tmp_path):
    folder = environment(tmp_path / "env", one(tmp_path, "a-1.0", {}), one(tmp_path, "b-1.0", {}))
    site = folder / "lib" / "python3.11" / "site-packages"
    (site / "__editable__.a-1.0.pth").write_text("/home/me/a\n")
    (problem,) = audit([], beside=Beside(folder)).problems
    assert problem.place is not None
    assert problem.place.file == str(site / "__editable__.a-1.0.pth")
    assert problem.message == "an editable installation: its files lie elsewhere and are not read"


@pytest.mark.parametrize("kind", ["empty", "file", "nothing", "wheels"])
def test_what_is_no_environment_is_one_message(kind, tmp_path, capfd):
    path = tmp_path / "env"
    match kind:
        case "empty":
            path.mkdir()
        case "file":
            path.write_text("")
        case "wheels":
            path.mkdir()
            one(path, "a-1.0", {})
    assert run(["audit", "--env", str(path)]) == 2
    error = capfd.readouterr().err
    assert str(path) in error
    assert "Traceback" not in error


def test_an_audit_of_nothing_says_what_can_be_given(capfd):
    assert run(["audit"]) == 2
    assert "give wheels, --env or --with" in capfd.readouterr().err


@pytest.mark.thorough
def test_a_hostile_environment_is_judged_within_bounds(tmp_path):
    folder = environment(tmp_path / "env", one(tmp_path, "a-1.0", {"a/ext.so": elf()}))
    site = folder / "lib" / "python3.11" / "site-packages"
    for name, target in (("zero.so", "/dev/zero"), ("loop.so", "loop.so"), ("up", "..")):
        (site / name).symlink_to(target)
    os.mkfifo(site / "pipe.so")
    with (site / "holes.so").open("wb") as file:
        file.write(elf())
        file.truncate(1 << 40)
    broken = site / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "RECORD").write_text("x" * csv.field_size_limit() * 2)
    (site / "..-1.dist-info").mkdir()
    (site / "'\n\x1b[31m-1.dist-info").mkdir()
    program = "import sys\nfrom gpuforge.cli.main import main\nsys.argv[0] = 'gpuforge'\nmain()\n"
    command = [sys.executable, "-c", program, "audit", "--env", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in {1, 2}
    assert "too large to judge" in ended.stdout + ended.stderr
    for text_of_any in ("Traceback", "itself failed", "\x1b"):
        assert text_of_any not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("library", "paths", "reported"),
    [
        ("libcudart.so.12", {"runpath": CU12}, True),
        ("libcudart.so.12", {"rpath": CU12}, False),  # it is searched first
        ("libcudart.so.13", {"runpath": CU12}, False),  # another library
    ],
)
def test_libraries_in_ld_library_path_win_over_a_runpath(
    tmp_path, monkeypatch, capsys, library, paths, *, reported
):
    own = wheel(
        tmp_path,
        {"demo/ext.so": elf(needed=["libcudart.so.12"], **paths)},  # type: ignore[arg-type]
        requires=["nvidia-cuda-runtime-cu12"],
    )
    runtime = one(
        tmp_path,
        "nvidia_cuda_runtime_cu12-12.9.79",
        {"nvidia/cuda_runtime/lib/libcudart.so.12": elf(soname="libcudart.so.12")},
    )
    cuda = tmp_path / "cuda"
    cuda.mkdir()
    (cuda / library).write_bytes(elf())
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path / 'nowhere'}:{cuda}")
    for with_environment in (True, False):
        place = ["--env", str(environment(tmp_path / "env", runtime))] if with_environment else []
        assert run(["audit", str(own), *place]) == 0
        shown = capsys.readouterr().out
        assert ("GF307" in shown) is (reported and with_environment)
        assert (f"{cuda} has it, too" in " ".join(shown.split())) is (reported and with_environment)
