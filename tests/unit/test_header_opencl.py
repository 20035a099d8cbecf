"""The switches keep OpenCL's loader closed in Python and in C, which say the same of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from header_samples import compile_program
from set_samples import OPENCL_C, install_set

pytestmark = [pytest.mark.xdist_group("header"), pytest.mark.thorough]
PROGRAM = """\
#define GPUFORGE_KERNELS_IMPLEMENTATION
#include <gpuforge_kernels.h>

int main(int count, char **arguments)
{
    gpuforge_host host;
    char *text;
    memset(&host, 0, sizeof host);
    host.home = arguments[count - 1], host.package = "demo";
    text = gpuforge_explain(&host, NULL, 0, 0);
    puts(text ? text : "");
    free(text);
    return 0;
}
"""
LOADER = """\
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { fputs("opened\\n", stderr); }
int clGetPlatformIDs(unsigned most, void **found, unsigned *count) { (void)most, (void)found; *count = 0; return 0; }
int clGetPlatformInfo(void) { return -1; }
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> list[list[str | Path]]:
    """`explain` of one package by Python and by C, beside a loader of OpenCL that says when it is opened."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    folder = tmp_path_factory.mktemp("switch")
    (folder / "explain.c").write_text(PROGRAM)
    (folder / "loader.c").write_text(LOADER)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", folder / "loader.c", "-o", folder / "libOpenCL.so.1"], check=True
    )
    home = install_set(folder / "site", OPENCL_C, cpu=False)
    program = compile_program(folder, folder / "explain.c", sanitized=False)
    script = f"import sys; sys.path.insert(0, {str(home.parents[1])!r}); sys.modules['pyopencl'] = None; "
    run = "import runpy; sys.argv[1:] = ['explain']; runpy.run_module('demo._gpuforge', run_name='__main__')"
    return [[sys.executable, "-c", script + run], [program, home]]


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "OpenCL: no platform"),
        ({"GPUFORGE_OPENCL": "cpu", "GPUFORGE_DISABLE_GPU": "0"}, "OpenCL: no platform"),
        ({"GPUFORGE_OPENCL": "0"}, "no OpenCL loader (switched off by GPUFORGE_OPENCL=0)"),
        ({"GPUFORGE_OPENCL": "none"}, "no OpenCL loader (switched off by GPUFORGE_OPENCL=none)"),
        ({"GPUFORGE_DISABLE_GPU": "1"}, "no OpenCL loader (switched off by GPUFORGE_DISABLE_GPU=1)"),
    ],
)
def test_the_loader_is_opened_only_where_it_may_be(
    commands: list[list[str | Path]], env: dict[str, str], said: str
) -> None:
    folder = Path(commands[1][0]).parent
    own = {"PATH": os.defpath, "HOME": str(folder), "LD_LIBRARY_PATH": str(folder), **env}
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().splitlines()[-1] == said
        assert ("opened" in done.stderr) is said.startswith("OpenCL: ")
