"""Wheels for a free-threaded CPython, built and tested with a real one, and the runtime used there by many threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from interpreter_samples import free_threaded

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


@pytest.fixture(scope="module")
def free() -> cpython.Interpreter:
    """A free-threaded CPython of this machine."""
    return free_threaded()


def built(folder: Path, python: cpython.Interpreter, slot: str) -> subprocess.CompletedProcess[str]:
    """Build a package whose module has a slot that says something about the GIL."""
    (folder / "free").mkdir()
    (folder / "free" / "__init__.py").write_text("from free._core import answer\n")
    (folder / "core.c").write_text(MODULE.replace("SLOT", slot))
    (folder / "setup.py").write_text(SETUP)
    (folder / "pyproject.toml").write_text(PROJECT)
    manifest = f'schema = 1\n[package]\nname = "free"\npython = ["{python.minor}"]\n[build]\ncuda = false\n'
    manifest += (
        """[test]\ncommand = ["python", "-c", "import free, sys; assert not sys._is_gil_enabled()"]\n"""
    )
    (folder / "gpuforge.toml").write_text(manifest)
    command = [sys.executable, "-m", "gpuforge", "build"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_wheel_is_built_and_tested_without_the_gil(tmp_path: Path, free: cpython.Interpreter) -> None:
    done = built(tmp_path, free, "{Py_mod_gil, Py_MOD_GIL_NOT_USED},")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    number = free.cpython.tag.removesuffix("t")
    assert wheel.name.startswith(f"free-1.0-{number}-{free.cpython.tag}-manylinux")


def test_a_wheel_whose_import_turns_the_gil_on_is_refused(tmp_path: Path, free: cpython.Interpreter) -> None:
    done = built(tmp_path, free, "")
    assert done.returncode == 1
    assert "the import turned the GIL on" in done.stderr
    assert "Py_mod_gil" in done.stderr
    assert not list(tmp_path.glob("dist/*.whl"))
