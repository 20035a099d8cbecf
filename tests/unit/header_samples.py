"""Programs that include gpuforge_kernels.h, compiled with every warning an error and, where they can be, sanitizers."""

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from gpuforge.package import c_header

_COMPILERS = {"c": ("gcc", "-std=c99", "-xc"), "c++": ("g++", "-std=c++11", "-xc++")}
_STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compile_program(folder: Path, source: Path, *flags: str, language: str = "c") -> Path:
    """Compile a program; skips where there is no compiler, or none with sanitizers."""
    name, standard, form = _COMPILERS[language]
    if shutil.which(name) is None:
        pytest.skip(f"no {name}")
    if not _sanitizes(name):
        pytest.skip(f"{name} has no sanitizers")
    target = folder / source.stem
    command = [name, standard, *_STRICT, "-O0", *_SANITIZERS, f"-I{include()}", *flags, form, str(source)]
    subprocess.run([*command, "-o", str(target), "-pthread", "-ldl"], check=True)
    return target


@cache
def include() -> Path:
    """The folder with the header, as it is in a wheel."""
    folder = Path(tempfile.mkdtemp(prefix="gpuforge-header-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "gpuforge_kernels.h").write_text(c_header.joined())
    return folder


@cache
def _sanitizes(compiler: str) -> bool:
    command = [compiler, *_SANITIZERS, "-xc", "-", "-o", "/dev/null"]
    return (
        subprocess.run(
            command, input=b"int main(void){return 0;}", capture_output=True, check=False
        ).returncode
        == 0
    )
