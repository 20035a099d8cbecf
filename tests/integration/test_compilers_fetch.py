"""A host compiler of Debian's packages, unpacked without root: what it links, and the wheels that are built with it."""

import platform
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from builds import PYTHON, build, copy_recipe, edit, record
from elftools.elf.elffile import ELFFile

from gpuforge.errors import MissingError
from gpuforge.toolchains.detect import detect
from gpuforge.toolkits import compilers
from gpuforge.toolkits.compilers import provision_compiler

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("build")]
PROGRAM = r"""
#include <iostream>
#include <regex>
#include <stdexcept>
#include <omp.h>
int main() {
    try { throw std::runtime_error("thrown"); }
    catch (const std::exception &error) { std::cout << error.what() << " "; }
    std::cout << __VERSION__ << " " << std::regex_match("aa", std::regex("a*")) << omp_get_num_procs() << "\n";
}
"""


@pytest.fixture(scope="module")
def offer() -> compilers.Offer:
    found = compilers.offered("g++", ">=11,<12", platform.machine())
    assert found is not None
    if found.lacking:
        pytest.skip(f"g++ 11 cannot be fetched to this machine, which lacks {', '.join(found.lacking)}")
    return found


def test_what_it_links_uses_the_machines_own_libraries(offer, tmp_path):
    provision_compiler(offer.compiler.parts, tmp_path / "gcc")
    (tmp_path / "a.cpp").write_text(PROGRAM)
    command = [tmp_path / "gcc" / offer.compiler.path, "-O2", "-fopenmp", "a.cpp", "-o", "a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "a"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("thrown 11.3.0 1")
    assert {"libstdc++.so.6", "libgomp.so.1", "libgcc_s.so.1", "libc.so.6"} <= needed(tmp_path / "a")
    said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    assert said.partition(" ")[2].startswith(offer.compiler.identity.partition(" ")[2])


def needed(program: Path) -> set[str]:
    with program.open("rb") as stream:
        (dynamic,) = (s for s in ELFFile(stream).iter_segments() if s.header.p_type == "PT_DYNAMIC")
        return {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}


@pytest.mark.slow
def test_a_wheel_of_cuda_11_is_built_where_only_a_newer_compiler_is_installed(offer, tmp_path):
    """The manifest's range makes it the compiler of the host build too; the bytes do not depend on where it lies."""
    with suppress(MissingError):
        pytest.skip(f"this machine has {detect('g++', specifier='>=11,<12').path}, which goes first")
    recipe = copy_recipe("saxpy", tmp_path)
    debug = '[build]\nconfig-settings = { "cmake.build-type" = "Debug" }\n'
    edit(recipe, ('compiler = "g++"', 'compiler = "g++"\nversion = ">=11,<12"'), ("[build]\n", debug))
    options = ("--python", PYTHON, "--cuda", 11, "-o")
    one = build(recipe, *options, tmp_path / "one", cache=tmp_path / "cache")
    two = build(recipe, *options, tmp_path / "two", "--no-test", cache=tmp_path / "another" / "cache")
    assert [w["sha256"] for w in one["wheels"]] == [w["sha256"] for w in two["wheels"]]
    (wheel,) = (Path(wheel["path"]) for wheel in one["wheels"])
    fetched = {"family": "g++", "version": "11.3.0"}
    assert record(wheel)["toolchains"] == {
        "host": fetched,
        "device": {"family": "nvcc", "version": "11.8.89", "host": fetched},
    }
    (core,) = (n for n in zipfile.ZipFile(wheel).namelist() if "_core" in n)
    extracted = Path(zipfile.ZipFile(wheel).extract(core, tmp_path))
    assert b"GCC: (Debian 11.3.0-12) 11.3.0" in extracted.read_bytes()
    assert str(tmp_path).encode() not in extracted.read_bytes()
