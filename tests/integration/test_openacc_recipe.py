"""recipes/openacc from end to end: built, installed by pip alone, compiled by the user's g++, and fallen back from."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import docker
import pytest
from builds import PYTHON, RECIPES, install_to, run

from gpuforge.audit import audit
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]
SHIPPED = (
    "kernel library mechanisms\n"
    "  used     shipped     default-mechanisms, made by {compiler}\n"
    "  refused  user build  nothing was compiled yet: python -m membrane._gpuforge compile\n"
)
OWN = """\
#include "mechanisms.h"

static void initial(int, const double *, double *) {}

static void advance(int cells, double, const double *v, double *, double *current)
{
    for (int i = 0; i < cells; ++i)
        current[i] += 0.01 * (v[i] + 65.0);
}

MECHANISM(mine, 0, initial, advance);
"""


@pytest.fixture(scope="module")
def site(openacc_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_to(tmp_path_factory.mktemp("installed") / "site", openacc_wheel)


def membrane(site: Path, module: str, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the package where no GPU is to be seen."""
    own = {
        "PATH": os.defpath,
        "PYTHONPATH": str(site),
        "GPUFORGE_KERNEL_HOME": str(site.parent / "kernels"),
        "GPUFORGE_DISABLE_GPU": "1",
    }
    return run(sys.executable, "-m", module, *arguments, cwd=site, env=own, **env)


def result(site: Path) -> str:
    """What the simulation gives: the last line of its output."""
    return membrane(site, "membrane").stdout.splitlines()[-1]


def test_what_the_user_compiles_takes_the_fallbacks_place_and_gives_the_same(site):
    shown = membrane(site, "membrane")
    compiler = shown.stdout.partition("made by ")[2].partition("\n")[0]
    assert shown.stdout.startswith(SHIPPED.format(compiler=compiler)), shown.stdout + shown.stderr
    before = result(site)
    assert before.startswith("100 cells, 50 ms: 301 spikes, the last cell ends at -69.4449")

    done = membrane(site, "membrane._gpuforge", "compile", "--toolchain", "host")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(toolchain host), is used from now on" in done.stdout
    used = membrane(site, "membrane._gpuforge", "explain").stdout
    assert f"used     user build ({site.parent}/kernels/user/membrane/mechanisms-" in used
    assert result(site) == before

    (site.parent / "mine.cpp").write_text(OWN)
    added = membrane(site, "membrane._gpuforge", "compile", "--toolchain", "host", site.parent / "mine.cpp")
    assert added.returncode == 0, added.stderr
    assert "mechanisms: hh, leak, mine" in membrane(site, "membrane").stdout
    assert result(site) != before

    removed = membrane(site, "membrane._gpuforge", "compile", "--remove")
    assert "your build was removed; in use: the shipped library, default-mechanisms" in removed.stdout
    assert membrane(site, "membrane").stdout == shown.stdout


def test_offloading_by_gcc_gives_the_same_where_there_is_no_gpu(site):
    before = result(site)
    done = membrane(site, "membrane._gpuforge", "compile", "--toolchain", "offload")
    if done.returncode == 3:
        assert "not compiled: no g++ >=12 with offloading to nvptx-none" in done.stderr
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "(toolchain offload), is used from now on" in done.stdout
    assert result(site) == before
    membrane(site, "membrane._gpuforge", "compile", "--remove")


@pytest.mark.docker
def test_without_a_compiler_the_fallback_stays(site, test_image):
    """In a Debian without compilers: what is missing is one line, and the package works."""
    script = f"""
set -u
for python in /opt/python/cp{PYTHON.replace(".", "")}-*/bin/python /usr/bin/python{PYTHON}
do [ -x "$python" ] && break; done
"$python" -m membrane; "$python" -m membrane._gpuforge compile; echo "status $?"; "$python" -m membrane
"""
    client = docker.from_env()
    try:
        said = client.containers.run(
            test_image,
            ["sh", "-c", script],
            entrypoint="",
            remove=True,
            network_disabled=True,
            stderr=True,
            volumes={str(site): {"bind": "/site", "mode": "ro"}},
            environment={"PYTHONPATH": "/site", "HOME": "/root", "PYTHONDONTWRITEBYTECODE": "1"},
        ).decode()
    finally:
        client.close()
    assert said.count("used     shipped     default-mechanisms, made by g++") == 2
    assert said.count("301 spikes") == 2
    (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert error == (
        "error: mechanisms: not compiled: found none of nvc++ >=22; g++ >=12 with offloading to nvptx-none; g++. "
        "For g++: apt-get install g++"
    )
    assert "status 3" in said


def changed(wheel: Path, target: Path, ending: str, change: Callable[[bytes], bytes]) -> Path:
    """Copy a wheel with one file changed: the first whose name has this ending."""
    copy = target / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as archive:
        member = next(name for name in source.namelist() if name.endswith(ending))
        for name in source.namelist():
            content = source.read(name)
            archive.writestr(name, change(content) if name == member else content)
    return copy


def errors(wheel: Path) -> set[str]:
    found = audit([wheel], expectation=expectation(load(RECIPES / "openacc"))).findings
    return {finding.code for finding in found if finding.severity == "error"}


def test_files_changed_after_they_were_listed(openacc_wheel, tmp_path):
    assert errors(openacc_wheel) == set()
    kernels = changed(
        openacc_wheel, tmp_path, "/default-mechanisms/libdefault-mechanisms.so", lambda b: b + b"\0"
    )
    assert errors(kernels) == {"GF701"}
    source = changed(openacc_wheel, tmp_path, "/mechanisms.h", lambda b: b + b"\n")
    assert errors(source) == {"GF702"}
    away = changed(openacc_wheel, tmp_path, "/mechanisms.h", lambda b: b + b'\n#include "/home/me/more.h"\n')
    assert errors(away) == {"GF603", "GF702"}


def test_a_host_only_pattern_without_a_binary(openacc_wheel, tmp_path):
    text = (RECIPES / "openacc" / "gpuforge.toml").read_text()
    (tmp_path / "gpuforge.toml").write_text(text.replace("*.so", "*.py"))
    found = audit([openacc_wheel], expectation=expectation(load(tmp_path))).findings
    assert [finding.code for finding in found if finding.severity == "error"] == ["GF602"]
