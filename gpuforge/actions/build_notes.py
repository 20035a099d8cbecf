"""What a host build took from the machine that it ran on: recorded by its compilers' wrappers and by CMake."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpuforge.diagnostics import shortened
from gpuforge.errors import ActionError

CPU_OPTIONS = "cpu-options"  # the file in the build's folder where wrappers record a call: "-mavx2 a.cpp"
# Options for newer processors than x86-64's baseline (x86-64 psABI, "Machine Levels").
_NEWER = (
    r"-m(?:arch=(?!x86-64\b(?!-))|avx|fma|sse3|ssse3|sse4|f16c|bmi|popcnt|lzcnt|movbe|aes|pclmul)[^\s\"']*"
)
FILES_READ = "files-read"  # a folder: lists of the files that a compiler or linker read, in make's syntax
# What every compiler reads: the C library, the compiler's own parts, Python.
_COMPILERS = re.compile(
    r"(libc6|linux-libc|libstdc\+\+|lib(gcc|gomp|atomic|quadmath|clang|python3|crypt)|gcc|g\+\+|cpp|clang|binutils|python3)"
    r"([-\d.].*)?"
)


def of_cpu(scratch: Path, source: Path) -> Iterator[str]:
    """Yield sentences about code for newer processors than the wheel's tag promises, and CMake's checks of this one."""
    record = scratch / CPU_OPTIONS
    files: dict[str, set[str]] = {}
    for line in record.read_text(errors="replace").splitlines() if record.exists() else ():
        options, _, file = line.rpartition(" ")
        if newer := " ".join(each for each in options.split() if re.fullmatch(_NEWER, each)):
            files.setdefault(newer, set()).add(file.removeprefix(f"{source}/").removeprefix(f"{scratch}/"))
    for options, names in sorted(files.items()):
        yield (
            f"compiled with {options}: {shortened(sorted(names))}. Older processors stop there with an illegal "
            "instruction, unless the program asks the processor first"
        )
    for top in (scratch / "build", source):
        for log in sorted(top.rglob("CMakeConfigureLog.yaml")):
            yield from _checks_run(log.read_text(errors="replace"))


def _checks_run(log: str) -> Iterator[str]:
    """Yield sentences about the programs that CMake compiled for a newer processor, and ran.

    https://cmake.org/cmake/help/latest/manual/cmake-configure-log.7.html
    """
    for event in re.split(r"^  -\n", log, flags=re.MULTILINE):
        option = re.search(rf"\s({_NEWER})", event)
        ran = re.search(r'runResult:\n\s+variable: "([^"]+)"', event)
        if not ran or not option:
            continue
        place = re.findall(r'^      - "([^/"][^"]+) \(', event, flags=re.MULTILINE)
        name = ran[1].removesuffix("_EXITCODE")
        yield (
            f"{place[-1] if place else 'CMake'} ran a program with {option[1]} on this processor; another one may "
            f'decide otherwise. Decide it: "cmake.define.{name}" = "OFF", or "ON", below [build.config-settings]'
        )


def packages(scratch: Path, apart: Sequence[Path]) -> dict[str, list[str]]:
    """Return the files that the build read of the machine's packages, by package; empty on systems without dpkg.

    Left out are the C library, compilers and Python, and what lies in the folders `apart`.
    """
    texts = (path.read_text(errors="replace") for path in sorted((scratch / FILES_READ).iterdir()))
    words = {word.rstrip(":") for text in texts for word in text.split() if word.startswith("/")}
    paths = sorted({Path(word).resolve() for word in words})
    found = [str(path) for path in paths if not any(path.is_relative_to(each) for each in (scratch, *apart))]
    dpkg = shutil.which("dpkg")
    if not found or dpkg is None:
        return {}
    # a file of /usr/lib may be known as one of /lib, where the two are one folder
    spellings = dict.fromkeys(name for path in found for name in (path, path.removeprefix("/usr")))
    answer = subprocess.run([dpkg, "-S", *spellings], capture_output=True, text=True, check=False).stdout
    owned: dict[str, list[str]] = {}
    for line in answer.splitlines():
        owner, _, path = line.partition(": ")
        package = owner.partition(":")[0]
        if path and not _COMPILERS.fullmatch(package):
            owned.setdefault(package, []).append(Path(path).name)
    return owned


def of_packages(packages: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a sentence about each package that the build used."""
    for package, names in sorted(packages.items()):
        yield f"the build used its package {package}: {shortened(names)}"


def check(packages: Mapping[str, Sequence[str]], allowed: Sequence[str]) -> None:
    """Raise ActionError if the build used other packages of the machine than `allowed`."""
    if strange := sorted(packages.keys() - {*allowed}):
        used = "; ".join(f"{package} ({shortened(packages[package])})" for package in strange)
        raise ActionError.of(
            f"the build used system packages that [build] system does not list: {used}",
            hint="list them there, or switch off the part of the project that uses them",
        )
