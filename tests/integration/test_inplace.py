"""`gpuforge build --inplace`: real backends, an environment, kernels, and libraries that are found."""

import shutil
import sys
from pathlib import Path

import pytest
from builds import DEVICES, copy_recipe, gpuforge, run

pytestmark = [pytest.mark.network, pytest.mark.toolkit, pytest.mark.slow, pytest.mark.xdist_group("build")]

SETUPTOOLS = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
    "setup.py": "from setuptools import Extension, setup\n"
    'setup(name="small", version="1.0", packages=["small"], ext_modules=[Extension("small._c", ["c.c"])])\n',
}
MESON = {
    "pyproject.toml": '[build-system]\nrequires = ["meson-python", "ninja"]\nbuild-backend = "mesonpy"\n'
    '[project]\nname = "small"\nversion = "1.0"\n',
    "meson.build": "project('small', 'c')\npy = import('python').find_installation(pure: false)\n"
    "py.install_sources('small/__init__.py', subdir: 'small')\n"
    "py.extension_module('_c', 'c.c', subdir: 'small', install: true)\n",
}
SOURCES = {
    "small/__init__.py": "WORD = 'one'\n",
    "c.c": '#include <Python.h>\nstatic struct PyModuleDef m = {PyModuleDef_HEAD_INIT, "_c"};\n'
    "PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&m); }\n",
    "k.cl": "kernel void k(global int *x) { *x = 1; }\n",
    "gpuforge.toml": 'schema = 1\n[package]\nname = "small"\nsource = { path = "." }\n'
    f'python = ["3.{sys.version_info.minor}"]\n[toolchains.opencl]\ncompiler = "opencl"\n'
    '[[objects]]\nname = "k"\nrole = "user-compiled"\nkind = "module"\nsources = ["k.cl"]\n'
    'toolchains = ["opencl"]\n',
}


@pytest.fixture
def python(tmp_path: Path) -> Path:
    assert run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env").returncode == 0
    return tmp_path / "env/bin/python"


def in_place(project: Path, python: Path, cache: Path, *options: object) -> str:
    done = gpuforge(*("build", project, "--inplace", *options), cache=cache, VIRTUAL_ENV=python.parents[1])
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def printed(python: Path, program: str) -> str:
    done = run(python, "-c", program, cwd=python.parent, PYTHONDONTWRITEBYTECODE=1)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("files", [SETUPTOOLS, MESON], ids=["setuptools", "meson-python"])
def test_a_changed_line_of_python_needs_no_build(tmp_path, python, cache, files):
    project = tmp_path / "project"
    for name, text in (SOURCES | files).items():
        (file := project / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert f"small is installed in {python.parents[1]}; its Python files" in in_place(project, python, cache)
    (project / "small/__init__.py").write_text("WORD = 'other'\n")
    assert printed(python, "import small, small._c; print(small.WORD)") == "other"
    explained = run(python, "-m", "small._gpuforge", "explain", cwd=tmp_path)
    assert "kernel set k" in explained.stdout
    if files is SETUPTOOLS:
        assert "1 of 1 hits" in in_place(project, python, cache)


def test_a_library_that_the_build_made_is_found(tmp_path, python, cache):
    made = "mkdir out && gcc -shared -fPIC -o out/libfoo.so foo.c && touch {env}/planted"
    keys = f"\n[build]\ncuda = false\nbefore = [['sh', '-c', '{made}']]\n"
    files = SOURCES | SETUPTOOLS
    files |= {
        "setup.py": SETUPTOOLS["setup.py"].replace(
            '["c.c"]', '["c.c"], libraries=["foo"], library_dirs=["out"]'
        ),
        "c.c": f"int foo(void);\n{SOURCES['c.c'].replace('return', 'foo(); return')}",
        "foo.c": "int foo(void) { return 1; }\n",
        "gpuforge.toml": f"{SOURCES['gpuforge.toml']}{keys}[wheel]\nbundle-from = ['out']\n",
    }
    for name, text in files.items():
        (file := tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    in_place(tmp_path / "project", python, cache)
    assert printed(python, "import small._c; print(small.WORD)") == "one"
    assert [path.parents[1].name for path in cache.rglob("planted")] == ["env.changes"]


def test_cudas_libraries_and_kernels_are_found(tmp_path, python, cache):
    shutil.copytree(DEVICES, tmp_path / "devices")
    in_place(tmp_path / "devices", python, cache, "--cuda", 13, "--archs", 90)
    loaded = printed(python, "import devices; print(open('/proc/self/maps').read())")
    assert f"{cache}/store/" in next(line for line in loaded.splitlines() if "libcudart" in line)
    in_place(copy_recipe("saxpy", tmp_path), python, cache, "--cuda", 13, "--archs", 90)
    explained = run(python, "-m", "saxpy._gpuforge", "explain", cwd=tmp_path)
    assert "kernel set default-kernels: made by nvcc 13.0" in explained.stdout


def test_without_an_environment_it_says_how_to_make_one(tmp_path):
    done = gpuforge("build", DEVICES, "--inplace", cache=tmp_path, VIRTUAL_ENV="", CONDA_PREFIX="")
    assert (done.returncode, done.stderr) == (
        2,
        "error: --inplace installs into the active environment, and none is active\n"
        "  hint: python -m venv .venv && . .venv/bin/activate, then the same command\n",
    )
