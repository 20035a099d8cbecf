"""Where CPython interpreters are found on a machine, and what a build without one of them ends with."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuforge.cli.main import run
from gpuforge.cpython import CPython
from gpuforge.errors import MissingError
from gpuforge.plan import site
from gpuforge.toolchains import cpython
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.inventory import SCRIPT, Inventory, question


def install(path: Path, version: str, *, headers: bool = True, abi: str = "") -> Path:
    """Write a program that answers as an interpreter of this version."""
    facts = {"implementation": "CPython", "version": version, "abi": abi, "executable": str(path)}
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{json.dumps({**facts, 'headers': headers, 'zlib': '1.3'})}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("PYENV_ROOT", "versions/3.41.2/bin/python3.41"),
        ("UV_PYTHON_INSTALL_DIR", "cpython-3.41.2-linux-x86_64-gnu/bin/python3.41"),
        ("XDG_DATA_HOME", "uv/python/cpython-3.41.2-linux-x86_64-gnu/bin/python3.41"),
    ],
)
def test_pythons_that_a_tool_keeps_for_itself_are_found(tmp_path, monkeypatch, variable, place):
    monkeypatch.setenv(variable, str(tmp_path))
    path = install(tmp_path / place, "3.41.2")
    assert cpython.find("3.41").path == path
    with pytest.raises(MissingError, match=r"no CPython 3\.42 on this machine"):
        cpython.find("3.42")


def test_a_free_threaded_python_is_another_than_the_one_beside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    free = tmp_path / "cpython-3.41.2+freethreaded-linux-x86_64-gnu/bin"
    for path in (free / "python3.41t", tmp_path / "cpython-3.41.2-free/bin/python3.41"):
        install(path, "3.41.2", abi="cpython-341t-x86_64-linux-gnu")
    assert (found := cpython.find("3.41t")).path == free / "python3.41t"
    assert (found.minor, found.cpython.tag) == ("3.41t", "cp341t")
    with pytest.raises(MissingError, match=r"no CPython 3\.41 on this machine"):
        cpython.find("3.41")


def test_the_interpreter_that_runs_here_is_known_without_being_started(monkeypatch):
    started = cpython.ask.__wrapped__(Path(sys._base_executable))  # type: ignore[attr-defined]
    monkeypatch.setattr(subprocess, "run", None)
    here = cpython.ask.__wrapped__(Path(sys.executable))
    assert here
    assert here._replace(venv=started.venv) == started


def test_the_slow_scripts_that_pyenv_has_on_path_are_not_started(tmp_path, monkeypatch):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    install(tmp_path / "shims/python3.41", "3.41.1")
    path = install(tmp_path / "versions/3.41.2/bin/python3.41", "3.41.2")
    assert cpython.find("3.41").path == path


def test_a_build_that_leaves_cells_out_ends_with_status_3_unless_that_is_allowed(
    recipe, tmp_path, monkeypatch, capsys
):
    def find(minor: str, *, or_newer: bool = False) -> Interpreter:
        if minor != "3.11":
            raise MissingError.of(f"no CPython {minor} on this machine", hint="install it")
        return Interpreter(Path("/python3.11"), "3.11.9", "cpython-311", headers=True)

    monkeypatch.setattr(site.cpython, "find", find)
    monkeypatch.setattr("gpuforge.cli.build.machine_type", lambda: "x86_64")
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "cache"))
    build = ["build", str(recipe().folder), "--cuda", "13", "--dry-run"]
    assert run(build) == 3
    out, err = capsys.readouterr()
    assert out.startswith("1 cell\n  cp311-cu13.0-x86_64: ")
    assert out.endswith("left out: cp313-cu13.0-x86_64: no CPython 3.13 on this machine\n")
    assert err == (
        "hint: install it\n"
        "1 cell is left out, so the exit status is 3; --python 3.11, or --allow-missing, makes it 0\n"
    )
    assert run([*build, "--allow-missing"]) == 0
    assert run([*build, "--python", "3.11"]) == 0  # only what was wanted counts


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.11", (3, 11)),
        ("3.9.18", (3, 9)),
        ("3.14.0rc1", (3, 14)),
        ("3.12.x", (3, 12)),
        ("3.13.1+", (3, 13)),
    ],
)
def test_a_version_is_read_up_to_its_minor(version, expected):
    assert CPython.parse(version) == CPython(*expected)


@pytest.mark.parametrize("version", ["", "3", "3.", "three", "3.1000", "²." + "1", "-3.1"])
def test_a_text_without_a_minor_is_no_version(version):
    with pytest.raises(ValueError, match="is not a version of CPython"):
        CPython.parse(version)


@pytest.mark.parametrize(
    ("tag", "version"),
    [("cp311", "3.11"), ("cp39", "3.9"), ("cp314t", "3.14t"), ("cp37m", "3.7")],
)
def test_a_tag_is_read(tag, version):
    assert str(CPython.of_tag(tag)) == version


@pytest.mark.parametrize("tag", ["py3", "abi3", "none", "cp27", "cp3", "cp3111", "pp310", "cp311d", ""])
def test_other_tags_are_of_no_single_cpython_3(tag):
    assert CPython.of_tag(tag) is None


def test_versions_are_ordered_by_number_and_spelled_as_tags():
    assert sorted(map(CPython.parse, ["3.13", "3.9", "3.10"])) == [(3, 9, ""), (3, 10, ""), (3, 13, "")]
    assert [CPython(3, 9).tag, CPython(3, 14, "t").tag] == ["cp39", "cp314t"]


GXX = "g++{0} (Debian {1}-14) {1}\nCopyright (C) 2022 Free Software Foundation, Inc.\n"
NVCC = "nvcc: NVIDIA (R)\nCuda compilation tools, release 12.4, V12.4.131\nBuild cuda_12.4.r12.4/compiler.1\n"


def python(
    version: str, path: str, *, headers: bool = True, implementation: str = "CPython", abi: str = "cpython"
) -> list[object]:
    facts = {
        "version": version,
        "implementation": implementation,
        "abi": abi,
        "executable": path,
        "zlib": "1.2.13",
        "headers": headers,
    }
    return [path, facts]


def image(**changes: object) -> Inventory:
    said = {
        "machine": "x86_64",
        "glibc": "2.36",
        "compilers": [
            ["/usr/bin/g++", GXX.format("", "12.2.0")],
            ["/usr/bin/g++-11", GXX.format("-11", "11.3.0")],
            ["/usr/bin/gcc-11", "gcc-11"],
            ["/usr/local/cuda-12.4/bin/nvcc", NVCC],
        ],
        "pythons": [
            python("3.9.2", "/opt/python/cp39-cp39/bin/python3"),
            python("3.13.5", "/opt/python/cp313-cp313/bin/python3"),
            python("3.11.2", "/opt/python/cp311-cp311/bin/python3"),
            python("3.11.2", "/usr/bin/python3.11", headers=False),
        ],
        "toolkits": {"/usr/local/cuda-12.4": {}},
        "path": "/opt/tools/bin:/usr/bin:/bin",
    }
    return Inventory.parse("bookworm", json.dumps(said | changes))


@pytest.mark.thorough
def test_the_script_finds_on_this_machine_what_detect_finds():
    answer = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, question()], capture_output=True, text=True, check=True
    )
    found = Inventory.parse("here", answer.stdout)
    assert found.detect("g++") == detect("g++")
    assert found.glibc.startswith("2.")


def test_a_compiler_is_chosen_by_the_rules_of_a_machine():
    assert image().detect("g++").path == Path("/usr/bin/g++")
    older = image().detect("g++", specifier="<12")
    assert (older.path, older.c_path) == (Path("/usr/bin/g++-11"), Path("/usr/bin/gcc-11"))
    assert image().detect("g++").c_path is None
    assert image().detect("g++", path="g++-11") == older
    with pytest.raises(MissingError, match=r"no usable clang\+\+: looked at image bookworm; found: nothing"):
        image().detect("clang++")
    with pytest.raises(
        MissingError, match=r"no usable g\+\+ >=13: looked at image bookworm; .*version 12\.2\.0 is"
    ):
        image().detect("g++", specifier=">=13")


def test_an_interpreter_needs_its_headers():
    assert image().find("3.11").path == Path("/opt/python/cp311-cp311/bin/python3")
    assert image().find("3.12", or_newer=True).version == "3.13.5"
    with pytest.raises(
        MissingError, match=r"no CPython 3\.12 in image bookworm; it has 3\.9\.2, 3\.13\.5, 3\.11\.2"
    ):
        image().find("3.12")
    bare = image(pythons=[python("3.11.2", "/usr/bin/python3", headers=False)])
    with pytest.raises(MissingError):
        bare.find("3.11")


def test_steps_run_with_the_oldest_python_that_gpuforge_supports():
    assert image().steps_python().version == "3.11.2"
    old = image(
        pythons=[
            python("3.9.2", "/usr/bin/python3"),
            python("3.11.0", "/pypy", implementation="PyPy"),
            python("3.14.0", "/opt/python/cp314-cp314t/bin/python3", abi="cpython-314t-x86_64-linux-gnu"),
        ]
    )
    with pytest.raises(MissingError, match=r"image bookworm has no CPython 3\.11 or newer"):
        old.steps_python()


def test_a_toolkit_without_version_file_has_its_compilers_version():
    assert image().toolkits == {Path("/usr/local/cuda-12.4"): "12.4"}
    said = {"/usr/local/cuda-12.4": {"cuda": {"version": "12.4.1"}}}
    assert image(toolkits=said).toolkits == {Path("/usr/local/cuda-12.4"): "12.4.1"}
