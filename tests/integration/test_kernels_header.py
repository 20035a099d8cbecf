"""A program in C finds the libraries of recipes/openacc's installed wheel: the one of docs/kernels-c.md, as printed."""

import os
import re
import shutil
import sys
from pathlib import Path

import builds
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]
EXPLAIN = """\
#define GPUFORGE_KERNELS_IMPLEMENTATION
#include <gpuforge_kernels.h>
int main(int count, char **arguments)
{
    static gpuforge_host host;
    char *text;
    host.home = arguments[1], host.package = "membrane";
    text = gpuforge_explain(&host, NULL, 0, count > 2);
    fputs(text, stdout);
    free(text);
    return 0;
}
"""
OWN = """\
#include "mechanisms.h"
static void initial(int, const double *, double *) {}
static void advance(int, double, const double *, double *, double *) {}
MECHANISM(mine, 0, initial, advance);
"""


@pytest.fixture
def site(openacc_wheel: Path, tmp_path: Path) -> Path:
    """The wheel of recipes/openacc, installed; the folder beside it has the package's headers."""
    shutil.copytree(builds.RECIPES / "openacc" / "mod", tmp_path / "mod")
    return builds.install_to(tmp_path / "site", openacc_wheel)


def run(site: Path, *command: object) -> str:
    """Run a command beside the installed package, where no GPU is to be seen; return what it prints."""
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "PYTHONPATH": str(site),
        "GPUFORGE_KERNEL_HOME": str(site.parent / "kernels"),
        "GPUFORGE_DISABLE_GPU": "1",
    }
    done = builds.run(*command, cwd=site.parent, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def blocks() -> tuple[str, list[str], str]:
    """The page's program, the commands that compile and run it, and what they print."""
    page = (ROOT / "docs" / "kernels-c.md").read_text()
    (program,) = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = console.splitlines(keepends=True)
    shown = "".join(line for line in lines if not line.startswith("$ "))
    return program, [line[2:] for line in lines if line.startswith("$ ")], shown


def test_the_pages_program_opens_the_fallback_and_follows_what_the_user_compiles(site):
    program, commands, shown = blocks()
    (site.parent / "host.c").write_text(program)
    (site.parent / "explain.c").write_text(EXPLAIN)
    assert run(site, "bash", "-c", "".join(commands)) == shown
    home = site / "membrane" / "_gpuforge"
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{home / 'include'}", "-Imod"]
    for compiler, standard, form in (("gcc", "c99", "-xc"), ("g++", "c++11", "-xc++")):
        for name in ("host", "explain"):
            options = (f"-std={standard}", *strict, form, f"{name}.c", "-o", name, "-pthread", "-ldl")
            run(site, compiler, *options)
        assert run(site, "./host", home) == shown

    def held_equal() -> str:
        text = run(site, sys.executable, "-m", "membrane._gpuforge", "explain")
        assert run(site, "./explain", home) == text
        data = run(site, sys.executable, "-m", "membrane._gpuforge", "explain", "--json")
        assert run(site, "./explain", home, "json") == data
        return text

    assert "used     shipped " in held_equal()
    (site.parent / "mine.cpp").write_text(OWN)
    compile_ = [sys.executable, "-m", "membrane._gpuforge", "compile"]
    run(site, *compile_, "--toolchain", "host", "mine.cpp")
    assert "used     user build (" in held_equal()
    assert run(site, "./host", home) == "hh\nleak\nmine\n"
    run(site, *compile_, "--remove")
    assert "used     shipped " in held_equal()
    assert run(site, "./host", home) == shown
