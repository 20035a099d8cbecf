"""The content of a container image: compilers, interpreters and toolkits, reported once by a script that runs in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpuforge.cpython import CPython
from gpuforge.errors import MissingError
from gpuforge.toolchains import detect as detection
from gpuforge.toolchains import nvcc
from gpuforge.toolchains.cpython import ASK, Interpreter, newer, read
from gpuforge.toolchains.toolchain import Compiler

OLDEST = CPython(3, 11)  # the Python that gpuforge itself needs
# Any Python 3.6 or newer of the image runs it with only the standard library.
SCRIPT = r"""
import glob, json, os, platform, re, subprocess, sys
programs, places, ask = json.loads(sys.argv[1])
environ = dict(os.environ, LC_ALL="C")

def output(*argv):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, timeout=20,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None

folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
for pattern in places:
    folders += sorted(glob.glob(pattern), reverse=True)
compilers, seen = [], set()
for folder in folders:
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        same = os.path.join(os.path.realpath(folder), name)
        if same in seen or not any(re.fullmatch(program, name) for program in programs):
            continue
        seen.add(same)
        text = os.access(path, os.X_OK) and output(path, "--version")
        if text:
            compilers.append([path, text])
pythons = []
paths = sorted(glob.glob("/opt/python/cp*-cp*/bin/python3"))
for path in paths + glob.glob("/usr/local/bin/python3.*") + glob.glob("/usr/bin/python3.*"):
    text = re.fullmatch(r"python3(\.\d+)?", os.path.basename(path)) and output(path, "-I", "-c", ask)
    if text:
        pythons.append([path, json.loads(text)])
toolkits = {}
for path, text in list(compilers):
    if os.path.basename(path) == "nvcc":
        root = os.path.dirname(os.path.dirname(os.path.realpath(path)))
        compilers.append([os.path.join(root, "bin", "nvcc"), text])
        version = os.path.join(root, "version.json")
        toolkits[root] = json.load(open(version)) if os.path.isfile(version) else {}
try:
    glibc = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")[2]
except (AttributeError, OSError, ValueError):
    glibc = ""
print(json.dumps({"machine": platform.machine(), "glibc": glibc, "compilers": compilers, "pythons": pythons,
                  "toolkits": toolkits, "path": os.environ.get("PATH", os.defpath)}))
"""


class Inventory(NamedTuple):
    """The content of one image. `name` is the image's, for messages; paths are those in its containers."""

    name: str
    machine: str  # "x86_64"
    glibc: str  # "2.36"; "" if it is not glibc
    compilers: Mapping[Path, str]  # each program's output for --version; "" for C compilers
    interpreters: tuple[Interpreter, ...]
    toolkits: Mapping[Path, str]  # CUDA toolkits by their folder: the version, as exactly as it is known
    path: str = "/usr/bin:/bin"  # its PATH

    @classmethod
    def parse(cls, name: str, answer: str) -> Inventory:
        """Read what `SCRIPT` printed; raises ValueError or KeyError for anything else."""
        reported = json.loads(answer)
        compilers = {Path(path): text for path, text in reported["compilers"]}
        toolkits = {
            Path(root): _cuda_version(known, compilers, root) for root, known in reported["toolkits"].items()
        }
        found: dict[str, Interpreter] = {}
        for _, facts in reported["pythons"]:
            python = read(facts)
            if python is not None:
                found.setdefault(python.title, python)
        return cls(
            name,
            reported["machine"],
            reported["glibc"],
            compilers,
            tuple(found.values()),
            toolkits,
            reported["path"],
        )

    def detect(self, family: str, *, path: str | None = None, specifier: str | None = None) -> Compiler:
        """Return the compiler to use, by the rules of `detect.detect`; raises the same errors."""
        return detection.pick(
            family, self.compilers, path=path, specifier=specifier, where=f"image {self.name}"
        )

    def find(self, minor: str, *, or_newer: bool = False, headers: bool = True) -> Interpreter:
        """Return an interpreter of `minor`, with its headers if `headers`, by the rules of `cpython.find`.

        Raises MissingError.
        """
        for version in [minor, *(newer(minor) if or_newer else [])]:
            for found in self.interpreters:
                if found.headers >= headers and found.minor == version:
                    return found
        having = ", ".join(i.title for i in self.interpreters) or "none"
        raise MissingError.of(
            f"no CPython {minor} in image {self.name}; it has {having}",
            hint="choose another with --python, or name another image with --image or in [wheel] image",
        )

    def steps_python(self) -> Interpreter:
        """Return the interpreter for gpuforge's own steps: the oldest that gpuforge supports.

        Raises MissingError if there is none.
        """
        fitting = [i for i in self.interpreters if i.cpython >= OLDEST and not i.cpython.threads]
        if not fitting:
            having = ", ".join(i.title for i in self.interpreters) or "none"
            raise MissingError.of(
                f"image {self.name} has no CPython {OLDEST} or newer, which gpuforge's own steps need; it has {having}",
                hint=f"put one into /opt/python/{OLDEST.folder}, as manylinux images do",
            )
        return min(fitting, key=lambda i: i.cpython)


def question() -> str:
    """Return the argument of `SCRIPT`: programs whose version it reads, their places, and the program for Pythons."""
    families = detection.families()
    programs = [re.sub(r"\?P<\w+>", "", family.programs.pattern) for family in families]
    c_programs = [f"{family.c_program[1]}(-[0-9.]+)?" for family in families if family.c_program]
    places = [place for family in families for place in family.places]
    return json.dumps([[*programs, *c_programs], places, ASK])


def _cuda_version(described: Any, compilers: Mapping[Path, str], root: str) -> str:
    text = next((t for path, t in compilers.items() if path.name == nvcc.NVCC.name and "release" in t), "")
    compiler = nvcc.parse(compilers.get(Path(root, "bin/nvcc"), text))
    return nvcc.toolkit_version(described, compiler[0] if compiler else None)
