"""The projects that bench/kills.py builds, each time with another salt: what depends on it was never made before."""

from __future__ import annotations

import shutil
from pathlib import Path

RECIPES = Path(__file__).resolve().parent.parent / "recipes"

LIBRARIES = 6
MANIFEST = """\
schema = 1
[package]
name = "small"
python = ["{python}"]
source = {{ path = "." }}
[build]
before = [["sleep", "1"]]
[toolchains.host]
compiler = "g++"
"""
LIBRARY = """
[[objects]]
name = "part{number}"
role = "fallback"
kind = "library"
sources = ["parts/part{number}.cpp"]
abi = {{ version = "1", headers = ["parts/parts.h"] }}
toolchain = "host"
"""
PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = '''\
"""A build backend without requirements: one module, the same bytes each time."""
import base64, hashlib, zipfile

def build_wheel(folder, settings=None, metadata=None):
    info = "small-1.0.dist-info"
    files = {
        "small/__init__.py": "answer = 42\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: small\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text.encode())}")
    files[f"{info}/RECORD"] = "\\n".join([*lines, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(f"{folder}/small-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text)
    return "small-1.0-py3-none-any.whl"
'''
SOURCE = """\
extern "C" int part{number}(const char *text) {{
    return text[0] == "{salt}"[0] ? {number} : -1;
}}
extern "C" const char *salt{number}() {{ return "{salt}"; }}
"""


def small(folder: Path, python: str, salt: str) -> Path:
    """Write a wheel without CUDA, whose actions are short and many, into a folder, and return it."""
    (folder / "parts").mkdir(parents=True)
    libraries = "".join(LIBRARY.format(number=number) for number in range(LIBRARIES))
    (folder / "gpuforge.toml").write_text(MANIFEST.format(python=python) + libraries)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(BACKEND.replace("answer = 42", f"answer = {salt!r}"))
    (folder / "parts" / "parts.h").write_text('extern "C" int part(const char *text);\n')
    for number in range(LIBRARIES):
        source = SOURCE.format(number=number, salt=salt)
        (folder / "parts" / f"part{number}.cpp").write_text(source)
    return folder


def saxpy(folder: Path, python: str, salt: str) -> Path:
    """Copy recipes/saxpy with another kernel in each file that nvcc compiles, and return the copy."""
    shutil.copytree(RECIPES / "saxpy", folder, ignore=shutil.ignore_patterns("dist", "build"))
    for source in sorted((folder / "kernels").glob("*.cu")):
        text = f'extern "C" __global__ void salt_{salt.replace("-", "_")}(int *x) {{ *x = 1; }}\n'
        source.write_text(source.read_text() + text)
    return folder
