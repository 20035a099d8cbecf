"""A plan reads each file once, however many of its actions read it."""

from collections import Counter
from pathlib import Path

import pytest
from plan_samples import plan_of

from gpuforge import digest

OBJECTS = """
[[objects]]
name = "ops"
role = "user-compiled"
sources = ["mod/*.cpp"]
headers = ["mod/*.h"]
toolchains = ["host"]
abi = { version = "1", headers = ["mod/*.h"] }

[[objects]]
name = "ops-cpu"
role = "fallback"
kind = "library"
stands-in-for = "ops"
sources = ["mod/*.cpp"]
headers = ["mod/*.h"]
toolchain = "host"
in-host-build = true
"""
AXES = """
[axes]
mode = ["1", "2"]

[build]
env = { MODE = "{mode}" }

[wheel]
naming = ["local"]
"""


@pytest.mark.parametrize("more", ["", AXES], ids=["plain", "axes"])
def test_every_file_is_read_once(recipe, machine, monkeypatch, more):
    read: Counter[Path] = Counter()
    of_member, of_file = digest.of_member, digest.of_file

    def member(root: Path, path: str, **options: bool) -> str:
        read[(root / path).resolve()] += 1
        return of_member(root, path, **options)

    def whole(path: Path) -> str:
        read[path.resolve()] += 1
        return of_file(path)

    monkeypatch.setattr(digest, "of_member", member)
    monkeypatch.setattr(digest, "of_file", whole)
    file = recipe(add=OBJECTS + more, header="mod/ops.h")
    plan_of(file, machine)
    names = ("pyproject.toml", "src/core.cpp", "kernels/one.cu", "kernels/two.cu", "mod/a.cpp", "mod/ops.h")
    assert {file.folder / name for name in names} <= read.keys()
    assert {path: times for path, times in read.items() if times > 1} == {}
