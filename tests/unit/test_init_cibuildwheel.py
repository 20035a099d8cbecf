"""What `gpuforge init` makes of cibuildwheel's settings: each has its equivalent, or is listed as left out."""

from pathlib import Path

import pytest
from init_samples import Draft, drafted

from gpuforge.manifest.load import load
from gpuforge.project import draft
from gpuforge.project.facts import look

PROJECT = """
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1"
classifiers = [
  "Programming Language :: Python :: 3.11",
  "Programming Language :: Python :: 3.12",
  "Programming Language :: Python :: 3.13",
]
[project.optional-dependencies]
plots = []
"""
WORKFLOW = """
jobs:
  wheels:
    steps:
      - uses: pypa/cibuildwheel@v3
        env:
          CIBW_BUILD: "cp312-* cp313-*"
          CIBW_SKIP: '*-musllinux*'  # no musl
          CIBW_BEFORE_ALL_LINUX: |
            yum install -y fftw-devel
            make -C third_party
          CIBW_BEFORE_ALL_MACOS: brew install fftw
          CIBW_ENVIRONMENT: DEMO_FFT=1 MAX_JOBS=4 STAMP="$(date)"
          CIBW_ENVIRONMENT_PASS_LINUX: DEMO_TOKEN
          CIBW_TEST_REQUIRES: pytest numpy
          CIBW_ARCHS: ${{ matrix.arch }}
"""


def with_settings(folder: Path, settings: str, workflow: str = "") -> Draft:
    """Return what is drafted, which can be loaded."""
    files = {"pyproject.toml": f"{PROJECT}[tool.cibuildwheel]\n{settings}"}
    files["CMakeLists.txt"] = "enable_language(CUDA)\n"
    files |= {".github/workflows/wheels.yml": workflow} if workflow else {}
    made = drafted(folder, files)
    (folder / "gpuforge.toml").write_text(draft.write(made.found, "gpuforge init"), encoding="utf-8")
    load(folder)
    return made


@pytest.mark.parametrize(
    ("settings", "pythons"),
    [
        ("", ("3.11", "3.12", "3.13")),
        ('build = "cp312-*"', ("3.12",)),
        ('build = ["cp31{2,3}-manylinux_x86_64"]', ("3.12", "3.13")),
        ('skip = "cp311-* *-musllinux*"', ("3.12", "3.13")),
        ('skip = "*-musllinux_*"', ("3.11", "3.12", "3.13")),
        ('build = "pp310-*"', ("3.11", "3.12", "3.13")),  # none of ours: it limits nothing
    ],
)
def test_build_and_skip_choose_the_pythons(tmp_path, settings, pythons):
    assert with_settings(tmp_path, settings).keys["package.python"] == pythons


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ('environment = { DEMO_FFT = "1" }', "build.env.DEMO_FFT", "1"),
        ("environment = 'DEMO_FFT=1 DEMO_NAME=\"a b\"'", "build.env.DEMO_NAME", "a b"),
        ('environment = { CMAKE_ARGS = "-DDEMO_FFT=ON -DCMAKE_CUDA_ARCHITECTURES=80" }',
         "build.config-settings.cmake.define.DEMO_FFT", "ON"),
        ('config-settings = "cmake.define.DEMO_FFT=ON"', "build.config-settings.cmake.define.DEMO_FFT", "ON"),
        ('before-build = "pip install -U pybind11>=2.13 && pip install cython"', "build.requires",
         ("cmake", "ninja", "pybind11>=2.13", "cython")),
        ('test-requires = ["pytest>=8", "numpy"]', "test.requires", ("pytest>=8", "numpy")),
        ('test-requires = ["pytest", "tomli;python_version<\'3.11\'"]', "test.requires",
         ("pytest", "tomli;python_version<'3.11'")),
        ('test-extras = "plots"', "test.extras", ("plots",)),
        ('test-sources = ["pyproject.toml"]', "test.sources", ("pyproject.toml",)),
        ('repair-wheel-command = "auditwheel repair --exclude libomp.so.5 -w {dest_dir} {wheel}"', "wheel.exclude",
         ("omp",)),
    ],
)  # fmt: skip
def test_a_setting_has_its_equivalent(tmp_path, settings, key, value):
    keys, notes, _ = with_settings(tmp_path, settings)
    assert keys[key] == value
    assert "cibuildwheel-left" not in notes
    assert "build.config-settings.cmake.define.CMAKE_CUDA_ARCHITECTURES" not in keys


@pytest.mark.parametrize(
    ("settings", "kind", "fact"),
    [
        ('before-all = ["yum install -y fftw", "make"]', "before-all", "yum install -y fftw && make"),
        ('before-build = "bash tools/fetch.sh"', "before-build", "bash tools/fetch.sh"),
        (
            'before-build = "pip install -r requirements.txt"',
            "before-build",
            "pip install -r requirements.txt",
        ),
        ('environment-pass = ["DEMO_TOKEN"]', "environment-pass", "DEMO_TOKEN"),
        ('test-command = "pytest {project}/tests"', "test-command", "pytest {project}/tests"),
        (
            'repair-wheel-command = "python tools/repair.py {wheel}"',
            "repair",
            "python tools/repair.py {wheel}",
        ),
        ('archs = ["auto", "aarch64"]', "cibuildwheel-left", "archs = auto aarch64"),
        ('before-test = "ulimit -c 0"', "cibuildwheel-left", "before-test = ulimit -c 0"),
        (
            'environment = { CC = "gcc-12" }',
            "cibuildwheel-left",
            "environment CC = gcc-12 (gpuforge sets it)",
        ),
        ('environment = { STAMP = "$(date)" }', "cibuildwheel-left", "environment STAMP = $(date)"),
        (
            '[[tool.cibuildwheel.overrides]]\nselect = "cp313-*"\nbefore-build = "x"\ntest-command = "y"',
            "cibuildwheel-left",
            "overrides for cp313-*: before-build, test-command",
        ),
    ],
)
def test_what_has_no_equivalent_is_listed(tmp_path, settings, kind, fact):
    assert fact in with_settings(tmp_path, settings).notes[kind].values()


def test_workflows_are_read_and_come_before_pyproject(tmp_path):
    keys, notes, _ = with_settings(
        tmp_path, 'build = "cp311-*"\nenvironment = { DEMO_FFT = "0" }\n', WORKFLOW
    )
    assert keys["package.python"] == ("3.12", "3.13")
    assert keys["build.env.DEMO_FFT"] == "1"
    assert keys["test.requires"] == ("pytest", "numpy")
    assert notes["before-all"] == {"command": "yum install -y fftw-devel && make -C third_party"}
    assert notes["environment-pass"] == {"names": "DEMO_TOKEN"}
    assert notes["cibuildwheel-left"]["what"] == (
        "archs = ${{ matrix.arch }}; environment MAX_JOBS = 4 (gpuforge sets it); environment STAMP = $(date)"
    )


def test_values_that_differ_between_jobs_are_joined_for_pythons_and_listed_for_the_rest(tmp_path):
    job = "      - env:\n          CIBW_BUILD: {}\n          CIBW_TEST_COMMAND: {}\n"
    workflow = "jobs:\n  wheels:\n    steps:\n" + job.format("cp311-*", "a") + job.format("cp313-*", "b")
    keys, notes, _ = with_settings(tmp_path, "", workflow)
    assert keys["package.python"] == ("3.11", "3.13")
    assert "test-command" not in notes
    assert notes["cibuildwheel-left"]["what"] == "test-command = a, b"
    (tmp_path / ".github/workflows/wheels.yml").write_text(f"{workflow}          CIBW_PLATFORM: pyodide\n")
    assert look(tmp_path).wheelbuilder.options == {}


def test_a_workflow_for_other_gpus_is_not_read(tmp_path):
    (tmp_path / ".github/workflows").mkdir(parents=True)
    (tmp_path / ".github/workflows/wheels-vulkan.yml").write_text(WORKFLOW, encoding="utf-8")
    assert look(tmp_path).wheelbuilder.options == {}
