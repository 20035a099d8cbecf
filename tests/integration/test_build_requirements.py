"""A wheel that links libcurand and nothing else, with what it declares, where no CUDA is on the machine."""

import json
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from builds import PYTHON, build, run
from uv import find_uv_bin

PROJECT = Path(__file__).parent / "dice"
pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("build")]
PROGRAM = """
import json, dice
status = dice.status()
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/libcu" in line and "/libcurses" not in line}
print(json.dumps([status, sorted(maps)]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dice")
    options = ("--cuda", 13, "--python", PYTHON, "-o", root / "dist")
    return Path(build(PROJECT, *options, cache=root / "cache")["wheels"][0]["path"])


def declared(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as bundle:
        (name,) = (n for n in bundle.namelist() if n.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(bundle.read(name)).get_all("Requires-Dist", [])


def imported(root: Path, *what: str) -> subprocess.CompletedProcess[str]:
    """Install into a new environment, with nothing but what `what` asks for, and import with no variable set."""
    subprocess.run([find_uv_bin(), "venv", "--quiet", f"--python={sys.executable}", root / "env"], check=True)
    python = root / "env" / "bin" / "python"
    subprocess.run([find_uv_bin(), "pip", "install", "--quiet", f"--python={python}", *what], check=True)
    return run(python, "-c", PROGRAM, env={})


def test_what_curand_forgets_is_declared_and_the_import_works(wheel, tmp_path):
    assert declared(wheel) == ["nvidia-cuda-runtime>=13.0,<14", "cuda-toolkit[curand]>=13.0,<14"]
    done = imported(tmp_path, str(wheel), "nvidia-curand>=10.4.5.25")
    assert done.returncode == 0, done.stderr
    _, maps = json.loads(done.stdout)
    site = f"{tmp_path}/env/lib/python{PYTHON}/site-packages/nvidia/cu13/lib"
    assert maps == [f"{site}/libcudart.so.13", f"{site}/libcurand.so.10"]


def test_without_what_is_declared_for_curand_nothing_installs_libcudart(wheel, tmp_path):
    done = imported(tmp_path, "--no-deps", str(wheel), "nvidia-curand==10.4.5.25")
    if done.returncode:
        assert "libcudart.so.13: cannot open shared object file" in done.stderr
    else:  # this machine has one, which only it has
        (cudart,) = (path for path in json.loads(done.stdout)[1] if "libcudart" in path)
        assert not cudart.startswith(str(tmp_path))


@pytest.mark.parametrize("beside", ["torch==2.15.0", "cuda-toolkit[curand]==13.0.0", "jax[cuda13]"])
def test_it_can_be_installed_beside_what_pins_other_minors(wheel, tmp_path, beside):
    wanted = tmp_path / "wanted.in"
    wanted.write_text(f"{wheel}\n{beside}\n")
    command = [find_uv_bin(), "pip", "compile", "--quiet", "--only-binary=:all:", wanted]
    command += [f"--python-version={PYTHON}", "--python-platform=x86_64-manylinux_2_28"]
    done = run(*command)
    assert done.returncode == 0, done.stderr
    if beside.startswith("torch"):
        assert "cuda-toolkit==13.2.2" in done.stdout


def test_an_older_major_is_refused_beside_it(wheel, tmp_path):
    wanted = tmp_path / "wanted.in"
    wanted.write_text(f"{wheel}\ncuda-toolkit[curand]==12.9.1\n")
    done = run(find_uv_bin(), "pip", "compile", "--quiet", wanted)
    assert done.returncode == 1
    assert "cuda-toolkit[curand]>=13.0,<14" in done.stderr
