"""A host wheel of real extensions, compiled by g++, and the step that packages it."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from gpuforge.actions import entry
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.package import links
from gpuforge.plan.action import Workdir
from gpuforge.wheel import unpacked

GXX = shutil.which("g++")
PINS = {"nvidia-cuda-runtime": "13.0.96", "nvidia-cufft": "12.0.0.61"}
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
EXTENSION = """
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "core"};
extern "C" { %s
PyMODINIT_FUNC PyInit_core() { %s return PyModule_Create(&module); } }
"""


def library(folder: Path, soname: str, source: str = "", *flags: str) -> Path:
    """Link a library that has `soname` and one function, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = source or f'extern "C" int {function(soname)}() {{ return 1; }}\n'
    compile_shared(folder / soname, text, f"-Wl,-soname,{soname}", *flags)
    return folder / soname


def function(soname: str) -> str:
    return re.sub(r"\W", "_", soname)


def compile_shared(output: Path, source: str, *flags: str) -> None:
    assert GXX is not None
    output.parent.mkdir(parents=True, exist_ok=True)
    code = output.parent / f"{output.name}.cpp"
    code.write_text(source)
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([GXX, "-shared", "-fPIC", include, "-o", output, code, *flags], check=True)
    code.unlink()


class Project:
    """A host wheel in the making: `extension` links one module with libraries, `wheel` packs all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "host"
        self.libraries = root / "toolkit" / "lib"
        info = self.tree / "demo-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\nA solver.\n")
        tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        self.tags = f"{tag}-{tag}-linux_x86_64"
        (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {self.tags}\n")
        (self.tree / "demo").mkdir()
        (self.tree / "demo" / "__init__.py").write_text("")

    def extension(self, place: str, sonames: list[str], *flags: str) -> Path:
        declared = "".join(f"int {function(name)}();\n" for name in sonames)
        called = "".join(f"{function(name)}();\n" for name in sonames)
        files = [
            str(p)
            for name in sonames
            if (p := self.libraries / name).exists() or library(self.libraries, name)
        ]
        target = self.tree / place / f"core{SUFFIX}"
        compile_shared(target, EXTENSION % (declared, called), *files, *flags)
        return target

    def wheel(self) -> Path:
        target = self.root / f"demo-1.0-{self.tags}.whl"
        unpacked.write(self.tree, target)
        return target

    def package(self, output: str = "out", **spec: object) -> Path:
        whole = {
            "wheel": str(self.wheel()),
            "package": "demo",
            "cuda": "13.0",
            "linkage": "pip",
            "naming": "suffix",
            "pins": PINS,
            "toolkit": str(self.libraries.parent),
            **spec,
        }
        folder = self.root / output
        work = self.root / "work"
        work.mkdir(exist_ok=True)
        try:
            entry.load("wheel.PackageWheel", json.dumps(whole)).run(Workdir(work, folder))
        finally:
            assert list(work.glob("*")) == []
        (made,) = (folder / "wheel").iterdir()
        return made


def elf_files(wheel: Path, folder: Path) -> dict[str, LinkedFile]:
    unpacked.unpack(wheel, folder)
    return {str(name): elf for name, elf in links.read_tree(folder).items()}


def text_of(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as bundle:
        (name,) = [name for name in bundle.namelist() if name.endswith(ending)]
        return bundle.read(name).decode()
