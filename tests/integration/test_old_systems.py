"""The page's way to wheels for older systems than this one, without a container: zig as the project's compiler."""

import re
from pathlib import Path

import pytest
from builds import PYTHON, build

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]

PAGE = Path(__file__).parents[2] / "docs" / "how-to.md"
MANIFEST = 'schema = 1\npackage = { name = "small", source = { path = "." }, python = ["%s"] }\n'
SOURCE = r"""
#include <Python.h>
#include <math.h>
static PyObject *power(PyObject *self, PyObject *x) { return PyFloat_FromDouble(pow(PyFloat_AsDouble(x), 1.5)); }
static PyMethodDef methods[] = {{"power", power, METH_O, ""}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "small", 0, -1, methods};
PyMODINIT_FUNC PyInit_small(void) { return PyModule_Create(&module); }
"""


def test_zig_compiles_for_an_older_glibc_than_this_machines(tmp_path):
    (snippet,) = re.findall(
        r"```toml\n(\[build\]\nrequires = \[\"ziglang.*?)```", PAGE.read_text(), re.DOTALL
    )
    of_c = snippet.replace("ziglang c++", "ziglang cc")  # zig's C++ library takes two minutes
    manifest = MANIFEST % PYTHON + of_c.replace("[build]\n", "[build]\ncuda = false\n")
    (tmp_path / "gpuforge.toml").write_text(manifest)
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    (tmp_path / "setup.py").write_text(
        "from setuptools import Extension, setup\n"
        'setup(name="small", version="1.0", ext_modules=[Extension("small", ["small.c"])])\n'
    )
    (tmp_path / "small.c").write_text(SOURCE)
    made = build(tmp_path, "-o", tmp_path / "dist", cache=tmp_path / "cache")
    (wheel,) = made["wheels"]
    # pow of any newer C library needs 2.29, and errors of the audit would have ended the build
    assert "manylinux_2_5_x86_64" in wheel["path"]
