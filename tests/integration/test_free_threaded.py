"""Wheels for a free-threaded CPython, built and tested with a real one, and the runtime used there by many threads."""

import subprocess
import sys
from pathlib import Path

import pytest
from interpreter_samples import free_threaded

from gpuforge.errors import MissingError
from gpuforge.toolchains import cpython

MODULE = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0}};
static PyModuleDef_Slot slots[] = {SLOT {0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", 0, 0, methods, slots};
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module); }
"""
SETUP = "from setuptools import Extension, setup; setup(ext_modules=[Extension('free._core', ['core.c'])])"
PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "free"
version = "1.0"
[tool.setuptools]
packages = ["free"]
"""
SLOTS = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0}};
PyABIInfo_VAR(abi);
static PySlot slots[] = {
    PySlot_STATIC_DATA(Py_mod_name, "_core"), PySlot_STATIC_DATA(Py_mod_methods, methods),
    PySlot_DATA(Py_mod_abi, &abi), PySlot_DATA(Py_mod_gil, Py_MOD_GIL_NOT_USED), PySlot_END
};
PyMODEXPORT_FUNC PyModExport__core(void) { return slots; }
"""
CMAKE = """
cmake_minimum_required(VERSION 4.4)
project(free C)
find_package(Python REQUIRED COMPONENTS Interpreter ${SKBUILD_SABI_COMPONENT})
python_add_library(_core MODULE core.c WITH_SOABI USE_SABI ${SKBUILD_SABI_VERSION})
install(TARGETS _core DESTINATION free)
"""
BOTH = """
[build-system]
requires = ["scikit-build-core>=1.1", "cmake>=4.4", "ninja"]
build-backend = "scikit_build_core.build"
[project]
name = "free"
version = "1.0"
[tool.scikit-build]
wheel.py-api = "cp315.cp315t"
"""


@pytest.fixture(scope="module")
def free() -> cpython.Interpreter:
    """A free-threaded CPython of this machine."""
    return free_threaded()


def built(
    folder: Path, python: str, module: str, project: str = PROJECT, package: str = ""
) -> subprocess.CompletedProcess[str]:
    """Build a package with a module, by setuptools or by scikit-build-core."""
    (folder / "free").mkdir()
    (folder / "free" / "__init__.py").write_text("from free._core import answer\n")
    (folder / "core.c").write_text(module)
    (folder / "setup.py").write_text(SETUP)
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "pyproject.toml").write_text(project)
    manifest = (
        f'schema = 1\n[package]\nname = "free"\npython = ["{python}"]\n{package}[build]\ncuda = false\n'
    )
    manifest += (
        """[test]\ncommand = ["python", "-c", "import free, sys; assert not sys._is_gil_enabled()"]\n"""
    )
    (folder / "gpuforge.toml").write_text(manifest)
    command = [sys.executable, "-m", "gpuforge", "build"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_wheel_is_built_and_tested_without_the_gil(tmp_path, free):
    done = built(tmp_path, free.minor, MODULE.replace("SLOT", "{Py_mod_gil, Py_MOD_GIL_NOT_USED},"))
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    number = free.cpython.tag.removesuffix("t")
    assert wheel.name.startswith(f"free-1.0-{number}-{free.cpython.tag}-manylinux")


def test_a_wheel_whose_import_turns_the_gil_on_is_refused(tmp_path, free):
    done = built(tmp_path, free.minor, MODULE.replace("SLOT", ""))
    assert done.returncode == 1
    assert "the import turned the GIL on" in done.stderr
    assert "Py_mod_gil" in done.stderr
    assert not list(tmp_path.glob("dist/*.whl"))


@pytest.mark.network
def test_a_wheel_for_both_stable_abis(tmp_path):
    try:
        cpython.find("3.15t")
    except MissingError:
        pytest.skip("no CPython 3.15t on this machine")
    done = built(tmp_path, "3.15t", SLOTS, BOTH, 'abi = "abi3t"\n')
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.name.startswith("free-1.0-cp315-abi3.abi3t-manylinux")
    assert "✓ providers: every NEEDED library is found" in done.stdout
