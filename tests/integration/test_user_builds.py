"""Builds on the user's machine: kills at any moment, several at once, wheels with runtimes of their own."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from library_samples import answer, compile_library, environment, install, run, toolchain

pytestmark = pytest.mark.toolkit


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(tmp_path / "site", toolchain("host", "g++", version=">=9"))
    return tmp_path / "site"


def builds(site: Path) -> list[str]:
    return sorted(
        p.name.partition("-")[0] for p in (site.parent / "builds").glob("user/demo/*/*") if p.is_dir()
    )


@pytest.mark.slow
def test_kills_at_any_moment_leave_the_old_state_or_the_new(site: Path) -> None:
    """The old state is a build with 42; the new one has a source of the user's own in it."""
    own = site.parent / "own.cpp"
    own.write_text('extern "C" int more(void) { return 1; }\n')
    assert run(site, "compile").returncode == 0
    argv = [sys.executable, "-m", "demo._gpuforge", "compile"]
    start = time.monotonic()
    subprocess.run([*argv, own], cwd=site, env=environment(site), check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - start
    chance = random.Random(2446)  # noqa: S311  the same moments each time
    for _ in range(12):
        process = subprocess.Popen([*argv, own], cwd=site, env=environment(site), stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, whole))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert answer(site) == 42
        (record,) = (site.parent / "builds").glob("user/demo/*/active.json")
        assert json.loads(record.read_text())["schema"] == 1
    assert run(site, "compile").returncode == 0
    assert builds(site) == ["build"]  # nothing of the killed ones is left


def test_two_at_once_both_succeed(site: Path) -> None:
    argv = [sys.executable, "-m", "demo._gpuforge", "compile"]
    both = [
        subprocess.Popen(argv, cwd=site, env=environment(site), stdout=subprocess.DEVNULL) for _ in range(3)
    ]
    assert [process.wait() for process in both] == [0, 0, 0]
    assert (answer(site), builds(site)) == (42, ["build"])


def tool(name: str, *arguments: object) -> str:
    """Run a program of this environment or of the machine."""
    folder = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run([name, *map(str, arguments)], capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip()


def with_openmp(site: Path) -> Path:
    """Give the package a host library with OpenMP, as auditwheel leaves it: libgomp is grafted under a hashed name."""
    core, libs = site / "demo" / "core.so", site / "demo.libs"
    libs.mkdir()
    source = site.parent / "core.cpp"
    source.write_text('#include <omp.h>\nextern "C" int threads() { return omp_get_max_threads(); }\n')
    tool("g++", "-shared", "-fPIC", "-fopenmp", source, "-o", core)
    grafted = libs / "libgomp-0a1b2c3d.so.1.0.0"
    grafted.write_bytes(Path(tool("g++", "-print-file-name=libgomp.so.1")).read_bytes())
    tool("patchelf", "--set-soname", grafted.name, grafted)
    tool(
        "patchelf",
        "--replace-needed",
        "libgomp.so.1",
        grafted.name,
        "--set-rpath",
        "$ORIGIN/../demo.libs",
        core,
    )
    return grafted


def test_a_second_copy_of_the_wheels_libgomp_is_refused_and_audited_before(tmp_path: Path) -> None:
    site = tmp_path / "site"
    openmp = toolchain("openmp", "g++", "-fopenmp")
    install(site, openmp, toolchain("host", "g++"))
    assert run(site, "compile", "--toolchain", "openmp").returncode == 0  # nothing meets it yet
    run(site, "compile", "--remove")
    grafted = with_openmp(site)

    refused = run(site, "compile")
    assert (refused.returncode, refused.stdout) == (1, "")
    plain = Path(tool("g++", "-print-file-name=libgomp.so.1")).resolve()
    assert (
        f"brings a second libgomp.so into the process: the package has {grafted}, and the compiled"
        in refused.stderr
    )
    assert (
        Path(refused.stderr.partition("the compiled library needs ")[2].partition(";")[0]).resolve() == plain
    )
    assert answer(site) == 7
    assert run(site, "compile", "--toolchain", "host").returncode == 0
    assert answer(site) == 42

    # What is refused is real: where such a library is loaded all the same, the process has both.
    run(site, "compile", "--toolchain", "host", "--remove")
    other = compile_library(
        tmp_path / "own.so", site / "demo/_gpuforge/sources/answers/mod/answer.cpp", "-fopenmp"
    )
    program = (
        "import ctypes; from demo._gpuforge import KernelLibrary; ctypes.CDLL('demo/core.so'); "
        "KernelLibrary.shipped('answers').load(); print(open('/proc/self/maps').read())"
    )
    maps = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=site,
        env=environment(site, GPUFORGE_KERNELS_DEMO_ANSWERS=str(other)),
    ).stdout
    assert {line.split()[-1] for line in maps.splitlines() if "libgomp" in line} == {str(grafted), str(plain)}

    wheel = as_wheel(site, tmp_path)
    audited = subprocess.run(
        [Path(sys.executable).with_name("gpuforge"), "audit", wheel, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    (finding,) = [f for f in json.loads(audited.stdout)["findings"] if f["code"] == "GF101"]
    assert (audited.returncode, finding["severity"]) == (1, "error")
    assert finding["subject"] == [
        "libgomp-0a1b2c3d.so.1.0.0 (OpenMP of GCC), loaded by core.so; libgomp.so.1 comes with the toolchain openmp of "
        "answers"
    ]


def as_wheel(site: Path, folder: Path) -> Path:
    """Pack an installed package as a wheel."""
    info = site / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    (info / "RECORD").write_text("")
    wheel = folder / "demo-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(site.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(site).as_posix())
    return wheel


def test_a_copy_that_the_record_names_counts_and_a_strangers_does_not(tmp_path: Path) -> None:
    """Beside the package lie others, whose libraries are not in its process."""
    site = tmp_path / "site"
    install(site, toolchain("openmp", "g++", "-fopenmp"))
    grafted = with_openmp(site)
    grafted.rename(grafted.with_name("kept"))
    (site / "stranger.libs").mkdir()
    grafted.with_name("kept").rename(site / "stranger.libs" / grafted.name)
    (site / "demo" / "core.so").unlink()
    info = site / "demo-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("demo/_gpuforge/__init__.py,,\n")
    assert run(site, "compile").returncode == 0
    (info / "RECORD").write_text(f"demo/_gpuforge/__init__.py,,\nstranger.libs/{grafted.name},,\n")
    assert run(site, "compile").returncode == 1
