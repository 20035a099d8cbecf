"""`gpuforge test`: a wheel that is there passes only with what it declares."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from wheel_making import compile_library, pack

from gpuforge.cli.main import run

CODE = 'extern "C" int made() { return 1; }\n'


def wheel(tmp_path: Path, source: str, *requires: str) -> Path:
    init = tmp_path / "__init__.py"
    init.write_text(source)
    return pack(tmp_path, {"demo/__init__.py": init}, requires=requires)


def test_without_a_gpu_nothing_passes_as_tested_on_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("gpuforge.containers.container.gpus", lambda: 0)
    assert run(["test", str(wheel(tmp_path, "")), "--gpu"]) == 3
    assert "--gpu: this machine shows no NVIDIA GPU" in capsys.readouterr().err


@pytest.mark.network
def test_a_wheel_is_installed_with_what_it_declares(tmp_path, capfd):
    made = wheel(tmp_path, "import packaging\n", "packaging")
    status = run(["test", str(made), "--", "python", "-c", "import demo; print('it ran')"])
    output, log = capfd.readouterr()
    assert status == 0, log
    first, second, third = output.splitlines()
    assert "with 1 package that it declares, `import demo` works" in first
    assert "CUDA libraries loaded: none" in second
    assert "python -c 'import demo; print('\"'\"'it ran'\"'\"')': passed" in third
    assert "it ran\n" in log


@pytest.mark.network
def test_the_oldest_and_the_newest_that_a_wheel_declares(tmp_path, capfd):
    made = wheel(tmp_path, "import numpy\n", "numpy>=1.26,<2.2", 'tomli>=2; extra == "x"')
    command = ["python", "-c", "import numpy, pytest; print(f'numpy {numpy.__version__}')"]
    for which, version in {"oldest": "1.26.0", "newest": "2.1.3"}.items():
        assert run(["test", str(made), "--requirements", which, "--with", "pytest", "--", *command]) == 0
        output, log = capfd.readouterr()
        assert f"\nnumpy {version}\n" in log
        assert ("with numpy 1.26.0, `import demo` works" in output) == (which == "oldest")
    assert run(["test", str(made), "--requirements", "oldest", "--with", "numpy>=2"]) == 0
    output = capfd.readouterr().out
    assert "with numpy 2.0.0, `import demo` works" in output
    assert "python -c 'import demo': passed" in output
    assert run(["test", str(made), "--requirements", "oldest", "--with", "numpy>=2.2"]) == 1
    assert f"the oldest of what {made.name} declares cannot be installed: Because " in capfd.readouterr().err


def test_what_a_wheel_does_not_declare_is_not_there(tmp_path, capfd):
    made = wheel(tmp_path, "import packaging\n")
    assert run(["test", str(made)]) == 1
    output, log = capfd.readouterr()
    assert output == ""
    assert f"error: {made.name}: `import demo` failed with exit status 1: ModuleNotFoundError" in log
    assert "the wheel does not declare it: add the package of 'packaging'" in log


def test_libraries_of_the_build_machine_do_not_count(tmp_path, capfd):
    library = compile_library(tmp_path / "libcudart.so.13", CODE)
    path = f"-Wl,-rpath,{tmp_path}"
    loader = compile_library(tmp_path / "_core.so", CODE, "-Wl,--no-as-needed", library, path)
    init = tmp_path / "__init__.py"
    init.write_text("import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '_core.so'))\n")
    made = pack(tmp_path, {"demo/__init__.py": init, "demo/_core.so": loader})
    assert run(["test", str(made)]) == 1
    log = capfd.readouterr().err
    assert f"`import demo` loaded libcudart.so.13 from {tmp_path}: CUDA of this machine" in log
    assert (
        run(["test", str(tmp_path / "libcudart.so.13")]) == 2
    )  # an argument that is not a wheel begins the command


@pytest.mark.network
def test_the_tests_of_a_manifest(tmp_path, capfd):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "check.py").write_text("import demo, packaging, os; print(sorted(os.listdir()))\n")
    manifest = tmp_path / "gpuforge.toml"
    manifest.write_text(
        'schema = 1\n[package]\nname = "demo"\npython = ["3.11"]\n[build]\ncuda = false\n'
        '[toolchains.host]\ncompiler = "g++"\n'
        '[test]\nrequires = ["packaging"]\nsources = ["tests"]\ncommand = ["python", "tests/check.py"]\n'
    )
    status = run(["test", str(wheel(tmp_path, "")), "--manifest", str(manifest)])
    output, log = capfd.readouterr()
    assert status == 0, log
    assert "python tests/check.py: passed" in output
    assert "['tests']\n" in log


@pytest.mark.network
def test_a_job_of_the_matrix_tests_a_wheel(tmp_path, capfd, monkeypatch):
    """Its command, in a folder with the wheel where the workflow puts it; torch's and numpy's releases are an axis."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    program = "import demo, packaging; assert packaging.__version__ == '{pack}'"
    (tmp_path / "gpuforge.toml").write_text(
        'schema = 1\n[package]\nname = "demo"\npython = ["3.11"]\n[build]\ncuda = false\n'
        '[toolchains.host]\ncompiler = "g++"\n[axes]\npack = ["24.1", "25.0"]\n[wheel]\nspans = ["pack"]\n'
        f'[test]\nrequires = ["packaging=={{pack}}"]\ncommand = ["python", "-c", "{program}"]\n'
        '[test.matrix]\nrequirements = ["oldest"]\n'
    )
    assert run(["matrix", "--image", "bookworm", "--format", "github", "--tests"]) == 0
    jobs = json.loads(capfd.readouterr().out)["include"]
    assert [job["test"].rpartition("x86_64-")[2] for job in jobs] == ["pack24.1-oldest", "pack25.0-oldest"]
    folder = tmp_path / "dist" / jobs[0]["cell"]
    folder.mkdir(parents=True)
    wheel(tmp_path, "import numpy\n", "numpy>=1.26", "packaging>=23").rename(
        folder / "demo-1.0-cp311-cp311-linux_x86_64.whl"
    )
    for job in jobs:
        done = subprocess.run(["sh", "-c", job["run"]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert f"with numpy 1.26.0, packaging {job['test'].split('-')[-2][4:]}, `import demo`" in done.stdout
