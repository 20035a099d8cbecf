"""What an image holds: the script that asks, and the choices made from its answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuforge.errors import MissingError
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.inventory import SCRIPT, Inventory, question

GXX = "g++{0} (Debian {1}-14) {1}\nCopyright (C) 2022 Free Software Foundation, Inc.\n"
NVCC = "nvcc: NVIDIA (R)\nCuda compilation tools, release 12.4, V12.4.131\nBuild cuda_12.4.r12.4/compiler.1\n"


def python(version: str, path: str, *, headers: bool = True, implementation: str = "CPython") -> list[object]:
    facts = {
        "version": version,
        "implementation": implementation,
        "abi": "cpython",
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
def test_the_script_finds_on_this_machine_what_detect_finds() -> None:
    answer = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, question()], capture_output=True, text=True, check=True
    )
    found = Inventory.parse("here", answer.stdout)
    assert found.detect("g++") == detect("g++")
    assert found.glibc.startswith("2.")


def test_a_compiler_is_chosen_by_the_rules_of_a_machine() -> None:
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


def test_an_interpreter_needs_its_headers() -> None:
    assert image().find("3.11").path == Path("/opt/python/cp311-cp311/bin/python3")
    assert image().find("3.12", or_newer=True).version == "3.13.5"
    with pytest.raises(
        MissingError, match=r"no CPython 3\.12 in image bookworm; it has 3\.9\.2, 3\.13\.5, 3\.11\.2"
    ):
        image().find("3.12")
    bare = image(pythons=[python("3.11.2", "/usr/bin/python3", headers=False)])
    with pytest.raises(MissingError):
        bare.find("3.11")


def test_steps_run_with_the_oldest_python_that_gpuforge_supports() -> None:
    assert image().steps_python().version == "3.11.2"
    old = image(
        pythons=[python("3.9.2", "/usr/bin/python3"), python("3.11.0", "/pypy", implementation="PyPy")]
    )
    with pytest.raises(MissingError, match=r"image bookworm has no CPython 3\.11 or newer"):
        old.steps_python()


def test_a_toolkit_without_version_file_has_its_compilers_version() -> None:
    assert image().toolkits == {Path("/usr/local/cuda-12.4"): "12.4"}
    said = {"/usr/local/cuda-12.4": {"cuda": {"version": "12.4.1"}}}
    assert image(toolkits=said).toolkits == {Path("/usr/local/cuda-12.4"): "12.4.1"}
