"""Libraries that a build makes and the wheel gets, by `[wheel] bundle-from`."""

import sys
import zipfile
from pathlib import Path

import pytest
from builds import build, gpuforge

pytestmark = [pytest.mark.network, pytest.mark.xdist_group("build")]
MANIFEST = f"""\
schema = 1
[package]
name = "helped"
source = {{ path = "." }}
python = ["{sys.version_info[0]}.{sys.version_info[1]}"]
[build]
cuda = false
before = [
  ["mkdir", "made"],
  ["gcc", "-shared", "-fPIC", "-Wl,-soname,libhelp.so.1", "-o", "{{project}}/made/libhelp.so", "{{project}}/help.c"],
]
[wheel]
bundle-from = ["{{project}}/made"]
"""
SETUP = """\
from setuptools import Extension, setup
ext = Extension("helped._c", ["c.c"], library_dirs=["made"], libraries=["help"])
setup(name="helped", version="1.0", packages=["helped"], ext_modules=[ext])
"""
CODE = """\
#include <Python.h>
int help(void);
static struct PyModuleDef m = {PyModuleDef_HEAD_INIT, "_c", 0, -1, 0};
PyMODINIT_FUNC PyInit__c(void) { return help() ? PyModule_Create(&m) : 0; }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "helped").mkdir(parents=True)
    (root / "helped" / "__init__.py").write_text("from helped import _c\n")
    for name, text in {
        "gpuforge.toml": MANIFEST,
        "setup.py": SETUP,
        "c.c": CODE,
        "help.c": "int help(void) { return 1; }\n",
    }.items():
        (root / name).write_text(text)
    return root


def test_a_library_that_the_build_made_is_put_into_the_wheel(project, tmp_path):
    build(project, cache=tmp_path / "cache", cwd=tmp_path)
    (wheel,) = tmp_path.glob("dist/*.whl")
    assert [name for name in zipfile.ZipFile(wheel).namelist() if "helped.libs/libhelp-" in name]


def test_a_folder_that_the_build_did_not_make(project, tmp_path):
    (project / "gpuforge.toml").write_text(MANIFEST.replace('project}/made"]', 'project}/maid"]'))
    done = gpuforge("build", project, cache=tmp_path / "cache", cwd=tmp_path)
    assert "[wheel] bundle-from: the build has no folder {project}/maid" in done.stderr
