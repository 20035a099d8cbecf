"""A package with a kernel library, installed in a folder: real sources, a real fallback made by g++."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuforge.cuda.kernels import KernelImage
from gpuforge.package import embed, kernel_set
from gpuforge.package.contents import CompiledBy, CompiledLibrary, LibrarySet, SourceSet, UserToolchain
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.toolchains import registry
from gpuforge.toolchains.user_compilers import bounds

RUNTIME = Path(kernel_set.__file__).parent.parent / "runtime"
ABI = "1-abc"
SOURCE = """\
#include "answer.h"
#ifdef _OPENMP
#include <omp.h>
extern "C" int threads(void) { return omp_get_max_threads(); }
#endif
extern "C" int answer(void) { return ANSWER; }
#ifdef PROGRAM
int main(int argc, char **) { return ANSWER + argc - 1; }
#endif
"""


def toolchain(name: str, family: str, *flags: str, version: str = "", **changed: object) -> UserToolchain:
    """A toolchain as a recipe has it."""
    plug_in = registry.toolchain(family)
    assert plug_in.library
    assert plug_in.program
    found, call = plug_in.program, plug_in.library(["answer.cpp"], flags)
    known = {
        "name": name,
        "family": family,
        "version": version,
        "accepts": tuple((bound.operator, bound.numbers) for bound in bounds(version)),
        "programs": found.programs.pattern,
        "answers": found.answers,
        "argv": call.argv,
        "offload": call.offload,
        "runtimes": call.runtimes,
        "install": {"": f"install {family}"},
        "of_toolkit": plug_in.of_toolkit,
    }
    return UserToolchain(**{**known, **changed})  # type: ignore[arg-type]


def compile_library(target: Path, source: Path, *flags: str, abi: str = ABI, program: bool = False) -> Path:
    """Compile one source with g++, as gpuforge compiles a fallback."""
    argv = [
        "g++",
        "-DPROGRAM" if program else "-shared",
        "-fPIC",
        f'-DGPUFORGE_ABI_ID="{abi}"',
        *flags,
        str(source),
    ]
    subprocess.run([*argv, str(RUNTIME / "abi.c"), "-o", str(target)], check=True)
    return target


def install(
    site: Path,
    *toolchains: UserToolchain,
    abi: str = ABI,
    packages: Mapping[str, str] | None = None,
    versions: str = "",
    program: bool = False,
) -> Path:
    """Lay a package `demo` with the object `answers` and its fallback into a folder; return the runtime's home.

    `packages` are part of the ABI; `versions` is what the fallback's id has of them.
    """
    work = site.parent / "work"
    (work / "mod").mkdir(parents=True)
    (work / "mod" / "answer.h").write_text("#ifndef ANSWER\n#define ANSWER 42\n#endif\n")
    (work / "mod" / "answer.cpp").write_text(SOURCE)
    packed = [
        kernel_set.pack_sources(
            work / "packed",
            SourceSet(
                name="answers",
                sources=("mod/answer.cpp",),
                includes=("mod/answer.h",),
                toolchains=toolchains,
                toolkit="13.0",
                archs=("80",),
                abi=abi,
                packages=packages or {},
                fallbacks=("default-answers",),
                program=program,
            ),
            work,
        ).parents[1],
    ]
    fallback = compile_library(
        work / "fallback.so", work / "mod" / "answer.cpp", "-DANSWER=7", abi=abi + versions, program=program
    )
    kernel_set.pack_libraries(
        work / "packed",
        LibrarySet(
            name="default-answers",
            toolchain=CompiledBy("g++", "12.2.0"),
            toolkit="13.0",
            abi=abi,
            packages=packages or {},
            stands_in_for="answers",
            program=program,
        ),
        [CompiledLibrary(fallback, (KernelImage("library", CpuLevel()),))],
    )
    (site / "demo").mkdir(parents=True)
    (site / "demo" / "__init__.py").write_text("")
    embed.kernel_sets(site, "demo", packed)
    for made in (site / "demo" / "_gpuforge" / "kernels").glob("*/default-answers"):
        made.chmod(0o755)  # as pip does
    shutil.rmtree(work)
    return site / "demo" / "_gpuforge"


def run(site: Path, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m demo._gpuforge` as a user would; nothing of the user's own environment is seen."""
    return subprocess.run(
        [sys.executable, "-m", "demo._gpuforge", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=site,
        env=environment(site, **env),
    )


def environment(site: Path, **env: str) -> dict[str, str]:
    """The environment of a user without a GPU, whose builds lie beside the packages."""
    builds = str(site.parent / "builds")
    return {"PATH": os.defpath, "GPUFORGE_KERNEL_HOME": builds, "GPUFORGE_DISABLE_GPU": "1", **env}


def answer(site: Path, **env: str) -> int:
    """Load the library in a process of its own, and call it."""
    return int(loaded(site, **env)[0])


def loaded(site: Path, call: str = "answer()", **env: str) -> tuple[str, str]:
    """Load the library as a user would, and return what a call of it and its warnings print."""
    code = f"from demo._gpuforge import KernelLibrary; print(KernelLibrary.shipped('answers').load().{call})"
    done = ended(site, code, **env)
    return done.stdout, done.stderr


def printed(site: Path, program: str, **env: str) -> str:
    """Run a program in Python as a user would, and return what it prints."""
    return ended(site, program, **env).stdout


def ended(site: Path, program: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program in Python as a user would."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=site,
        env=environment(site, **env),
    )


def program(folder: Path, name: str, script: str) -> Path:
    """Write a program in shell."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file
