"""What is shown of a failed build: the lines that say why, and the hint that they call for."""

import os
import subprocess
from pathlib import Path

import pytest
from plan_samples import PACKAGE

from gpuforge.diagnostics import Diagnostic
from gpuforge.execute import action_log, failure
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan import advice
from gpuforge.plan.action import Action
from gpuforge.toolkits import pins
from gpuforge.toolkits.providers import pypi

GOLDEN = Path(__file__).parents[1] / "golden" / "failure"
MANIFEST = (
    PACKAGE
    + """\
[toolchains.device]
compiler = "nvcc"
[cuda]
libraries = ["cufft"]
[cuda.13]
toolkit = "13.0"
archs = ["80"]
[[objects]]
name = "kernels"
role = "fallback"
sources = ["kernels/*.cu"]
toolchain = "device"
"""
)
CMAKE = """\
CMake Error at CMakeLists.txt:4 (target_link_libraries):
  Target "a" links to:

    CUDA::cusparse

  but the target was not found.  Possible reasons include:
"""
CUDA_HEADER = "kernels/solve.cu:2:10: fatal error: cusparse.h: No such file or directory\n"
OWN_HEADER = "kernels/solve.cu:3:10: fatal error: tiles.cuh: No such file or directory\n"
UNKNOWN_OPTION = "nvcc fatal   : Unknown option '-bogus-flag'\n"
LIBRARY = (
    'write libraries = ["cufft", "cusparse"] below [cuda] (gpuforge.toml:8:13): the toolkit came without it'
)
CPATH = (
    'write CPATH = "{toolkit}/include" below [build.env]: '
    "the toolkit has this header, and the command does not look there"
)
LIBRARY_PATH = (
    'write LIBRARY_PATH = "{toolkit}/lib64:{toolkit}/lib64/stubs" below [build.env]: '
    "the toolkit has this library, and the command does not look there"
)
BUILD_FAILED = Diagnostic("the project's own build failed", hint="its first errors are above")


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ManifestFile:
    monkeypatch.chdir(tmp_path)
    Path("gpuforge.toml").write_text(MANIFEST)
    return load(Path())


TRACEBACK = """\
running build_ext
-- looking for cuFFT
cuFFT was not found below /opt/cuda: set CUFFT_ROOT
Traceback (most recent call last):
  File "setup.py", line 9, in <module>
    build()
subprocess.CalledProcessError: Command '['cmake']' returned non-zero exit status 1.
"""


@pytest.mark.parametrize(
    ("text", "first", "count"),
    [
        (TRACEBACK.replace("subprocess.Called", "Called"), "running build_ext", 4),
        (
            "k.cu(1): error: no such type\n" + TRACEBACK.replace("subprocess.Called", "Called"),
            "k.cu(1): error: no such type",
            2,
        ),
    ],
)
def test_what_a_script_printed_before_its_traceback_is_shown(tmp_path, text, first, count):
    log = tmp_path / "log"
    log.write_text(text)
    lines = action_log.errors(log)
    assert (lines[0], len(lines)) == (first, count)
    assert lines[-1].startswith("CalledProcessError: ")


def test_an_index_that_cannot_be_reached_is_not_told_in_five_lines(tmp_path):
    log = tmp_path / "log"
    retry = "WARNING: Retrying (Retry(total={}, …)) after connection broken by 'NewConnectionError'\n"
    missing = "ERROR: No matching distribution found for numpy\n"
    indexes = "Looking in indexes: http://127.0.0.1:9/simple, https://pypi.example\n"
    log.write_text(
        f"fetching\n{indexes}{''.join(map(retry.format, range(5)))}{missing}error: cannot reach the index\n"
    )
    assert action_log.tail(log) == ("fetching", "error: cannot reach the index")
    log.write_text(f"fetching\n{missing}")  # the index was reached, and has none
    assert action_log.tail(log) == ("fetching", missing.strip())


def test_the_errors_of_a_parallel_build_are_shown_and_not_a_neighbours_warnings():
    shown = "\n".join(action_log.errors(GOLDEN / "ninja.log")) + "\n"
    golden = GOLDEN / "ninja.txt"
    if "UPDATE_GOLDEN" in os.environ:
        golden.write_text(shown)
    assert shown == golden.read_text()
    assert "undeclared_name" not in "\n".join(action_log.tail(GOLDEN / "ninja.log"))


def test_a_log_without_such_lines_is_shown_from_its_end(tmp_path):
    (tmp_path / "log").write_text("".join(f"line {n}\n" for n in range(50)))
    assert action_log.errors(tmp_path / "log") == tuple(f"line {n}" for n in range(30, 50))


def test_output_that_looks_like_the_head_of_a_log_is_shown(tmp_path):
    action = Action("a", kind="host-build", title="build a", argv=("sh",))
    argv, env = ["sh", "-c", "echo '\n\n\n'"], {"TWO": "a\n\nb\n\n", "ONE": "a\nb"}
    head = action_log.header(action, argv, env, tmp_path, request="{}")
    output = ("# a comment", "", "$ make", "# the last line")
    (tmp_path / "log").write_text(head + "\n" + "\n".join(output) + "\n")
    assert action_log.tail(tmp_path / "log") == output
    (tmp_path / "log").write_text(head)
    assert action_log.tail(tmp_path / "log") == ()
    words = head.rstrip().partition("\n$ ")[2]
    shown = subprocess.run(["bash", "-c", f"printf %s {words}"], capture_output=True, text=True, check=True)
    assert shown.stdout == "".join(argv)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (CUDA_HEADER, LIBRARY),
        (OWN_HEADER, "add the missing header to `headers` of 'kernels' (gpuforge.toml:12:1)"),
        (UNKNOWN_OPTION, "its log shows the command and its output"),
    ],
)
def test_the_hint_of_a_failed_compile_is_for_the_compilers_error(said, hint, manifest):
    compiled = Action("compile", "compile", "", (), advice=advice.of_compile(manifest, 0))
    told = failure.of_status(compiled, 1, said.splitlines())
    assert (told.message, told.hint) == ("compile failed with exit status 1", hint)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (CUDA_HEADER, LIBRARY),
        (CMAKE, LIBRARY),
        ("/usr/bin/ld: cannot find -lcusparse: No such file or directory\n", LIBRARY),
        ("gpuforge: error: nvcc compiles for sm_70, not in the manifest (-arch=sm_70)\n", advice.OWN_ARCHS),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_50'\n", advice.TOOLKIT_ARCHS),
        (
            OWN_HEADER,
            "files of an object's `sources` and `headers` are left out of the build unless in-host-build = true",
        ),
        (
            "CMake Error at F.cmake:290 (message):\n  Could NOT find OpenCL (missing: OpenCL_LIBRARY)\n",
            advice.SYSTEM.hint,
        ),
        ("-- Could NOT find X (missing: A)\n", "its first errors are above"),
        ("a.cpp:2:1: error: 'x' was not declared\n", "its first errors are above"),
    ],
)
def test_the_hint_of_a_failed_host_build_is_for_the_compilers_error(said, hint, manifest, tmp_path):
    log = tmp_path / "log"
    log.write_text(said + "warning: something else\n" * 20_000 + f"error: {BUILD_FAILED}\n")
    built = Action("build", "build", "", (), advice=advice.of_host_build(manifest))
    told = failure.of_status(
        built, 1, action_log.tail(log), causes=action_log.errors(log), reported=BUILD_FAILED
    )
    assert (told.message, told.hint) == ("the project's own build failed", hint)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("a.cpp:1:10: fatal error: cufft.h: No such file or directory", CPATH),
        ("a.cpp:1:10: fatal error: cuda_runtime.h: No such file or directory", CPATH),
        ("/usr/bin/ld: cannot find -lcufft: No such file or directory", LIBRARY_PATH),
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory", LIBRARY_PATH),
        ("/usr/bin/ld: cannot find -lcufoo: No such file or directory", "its log shows the command and its output"),
    ],
)  # fmt: skip
def test_what_the_toolkit_has_is_shown_to_a_command_that_does_not_look_there(said, hint, manifest):
    built = Action("build", "build", "", (), advice=advice.of_host_build(manifest))
    assert failure.of_status(built, 1, [said]).hint == hint


def test_the_linkers_name_of_a_library_may_have_capitals(manifest):
    built = Action("build", "build", "", (), advice=advice.of_host_build(manifest))
    said = ["/usr/bin/ld: cannot find -lOpenCL: No such file or directory"]
    assert '["cufft", "opencl"]' in failure.of_status(built, 1, said).hint


def test_a_missing_header_of_a_project_without_objects(tmp_path):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST.partition("[[objects]]")[0])
    built = Action("build", "build", "", (), advice=advice.of_host_build(load(tmp_path)))
    hint = (
        "install the system package that has this header, or put the header into a folder of [build] overlay"
    )
    assert failure.of_status(built, 1, [OWN_HEADER]).hint == hint


def test_the_manual_lists_the_names_of_libraries():
    from gpuforge.manifest.schema import json_schema

    text = json_schema()["$defs"]["Cuda"]["properties"]["libraries"]["description"]
    listed = {name for name in text.split("`") if name.isalpha()}
    newest = set(pypi.libraries(pypi.minors()[-1]))
    tools = {"cuxxfilt", "opencl", "sanitizer"}
    assert set(pins.headers_by_library()) - tools - listed == set()
    assert listed - newest == set(pins.beside_toolkits())
