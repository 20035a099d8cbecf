"""A fallback library by a command: run in the build environment, and refused without the ABI id that it must have."""

import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from library_samples import RUNTIME, program

from gpuforge.actions import entry, venv
from gpuforge.errors import ActionError, GpuforgeError
from gpuforge.plan.action import Workdir
from gpuforge.runtime import elf

GXX = shutil.which("g++")
BUILD = f'mkdir -p out; {GXX} -shared -fPIC "$1" "$2" -o out/libmade.so'
TOOL = "makelib"


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, object]:
    """What the step is told for a command `makelib SOURCE ABI` that lies in the build environment."""
    folder = tmp_path / "env"
    venv.create(Path(sys.executable), folder)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "one.cpp").write_text('extern "C" int one() { return 1; }\n')
    return {
        "name": "mechanisms",
        "argv": [TOOL, "{sources}", "{abi}"],
        "sources": str(scratch),
        "compiled": ["one.cpp"],
        "product": "out/lib*.so",
        "abi": "1-abc",
        "runtime": str(RUNTIME),
        "env": str(folder),
        "python": sys.executable,
    }


def make(spec: dict[str, object], script: str) -> Path:
    env = Path(str(spec["env"]))
    program(env / "bin", TOOL, script)
    entry.load("command_library.CommandLibrary", json.dumps(spec)).run(
        Workdir(env.with_name("scratch"), env.parent)
    )
    return env.with_name("library")


def failure(spec: dict[str, object], script: str) -> str:
    with pytest.raises(GpuforgeError) as caught:
        make(spec, script)
    assert not Path(str(spec["env"])).with_name("library").exists()
    return str(caught.value)


@pytest.mark.thorough
def test_the_library_has_the_id(spec):
    assert elf.read_string(make(spec, BUILD), "gpuforge_abi_id") == "1-abc"


@pytest.mark.thorough
def test_the_versions_of_the_build_environments_packages_are_part_of_the_id(spec):
    site = next(Path(str(spec["env"])).glob("lib/python*/site-packages"))
    for name, number in (("neuron", "9.0.2"), ("other_tool", "4.5.6")):
        info = site / f"{name}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    spec["abi_packages"] = {"other-tool": "exact", "neuron": "major.minor"}
    assert elf.read_string(make(spec, BUILD), "gpuforge_abi_id") == "1-abc+neuron-9.0+other-tool-4.5.6"


@pytest.mark.thorough
def test_a_package_that_is_not_there_is_asked_for(spec):
    assert version("packaging")  # of this Python, not of the build environment
    spec["abi_packages"] = {"packaging": "major"}
    assert failure(spec, BUILD) == (
        "object 'mechanisms': packaging is part of its ABI and not in the build environment\n"
        '  hint: add it: [build] requires = ["packaging"]'
    )


@pytest.mark.thorough
def test_a_command_that_leaves_the_id_out_is_refused(spec):
    assert failure(spec, BUILD.replace('"$2"', "")) == (
        "object 'mechanisms': the library that makelib made has no ABI id\n"
        "  hint: the command must link {abi} in, a C file that g++ and nvc++ take among their objects"
    )


@pytest.mark.thorough
def test_another_id_is_refused(spec):
    other = """mkdir -p out; printf '#define GPUFORGE_ABI_ID "old"\\n' | cat - %s > old.c""" % (
        RUNTIME / "abi.c"
    )
    assert "the library that makelib made has the ABI id old, not 1-abc" in failure(
        spec, f"{other}; {BUILD.replace(chr(34) + '$2' + chr(34), 'old.c')}"
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "object 'mechanisms': makelib failed with exit status 3"),
        ("true", "ended well and left none matching 'out/lib*.so', where one library was expected"),
        (
            "mkdir out; touch out/liba.so out/libb.so",
            "left out/liba.so, out/libb.so matching 'out/lib*.so', where one library was expected",
        ),
    ],
)
def test_a_command_that_makes_no_library_is_said(spec, script, message):
    assert message in failure(spec, script)


@pytest.mark.thorough
def test_a_program_that_is_not_there_is_said(spec):
    spec["argv"] = ["no-such-program"]
    with pytest.raises(ActionError) as caught:
        make(spec, "")
    assert str(caught.value) == (
        "object 'mechanisms': no-such-program cannot be run: No such file or directory\n"
        "  hint: it is looked for in the build environment and in the system's folders: name the package that brings "
        "it in [build] requires"
    )
