"""The readers against the tools that everyone trusts: readelf for the dynamic section, cuobjdump for GPU code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gpuforge.audit.model import ElfObject
from gpuforge.audit.wheel import read

PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
)
CUOBJDUMP = os.environ.get("CUOBJDUMP") or shutil.which("cuobjdump")

Wheel = Callable[[str], Path]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """Download one wheel for CPython 3.11 on x86_64, once."""
    options = ["--no-deps", "--only-binary=:all:", "--python-version=3.11"]
    options += [f"--platform={platform}" for platform in PLATFORMS]

    @cache
    def download(requirement: str) -> Path:
        folder = tmp_path_factory.mktemp("wheels")
        argv = [sys.executable, "-m", "pip", "download", "-q", *options, "-d", str(folder), requirement]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"PyPI cannot be reached: {done.stderr.strip().splitlines()[-1]}")
        return next(folder.glob("*.whl"))

    return download


@pytest.mark.network
@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")
@pytest.mark.parametrize(
    "requirement",
    ["neuron-gpu==8.2.2", "torchvision==0.29.2", "xformers==0.0.35", "psutil==7.2.2", "scipy==1.17.1"],
)
def test_every_dynamic_entry_is_what_readelf_prints(wheel: Wheel, requirement: str, tmp_path: Path) -> None:
    path = wheel(requirement)
    objects = read(path).objects
    assert objects
    with zipfile.ZipFile(path) as archive:
        for found in objects:
            place = tmp_path / "member"
            place.write_bytes(archive.read(found.file))
            done = subprocess.run(["readelf", "-dW", place], capture_output=True, text=True, check=True)
            assert _entries(done.stdout) == found.dynamic, found.file
            assert _texts(done.stdout) == _said(found), found.file


def _entries(text: str) -> tuple[tuple[int, int], ...]:
    """Return tag and value of every line of `readelf -d` that gives the value as a number, before DT_NULL."""
    found = []
    for line in text.splitlines():
        if parts := re.match(r" (0x[0-9a-f]+) \((\w+)\)\s+(.*)", line):
            tag = int(parts[1], 16)
            if tag == 0:
                break
            found.append((tag, parts[3]))
    return tuple((tag, _number(value)) for tag, value in found)


def _number(value: str) -> int:
    if match := re.match(r"(0x[0-9a-f]+)$|(\d+)(?: \(bytes\))?$", value):
        return int(match[1], 16) if match[1] else int(match[2])
    return ANY


class _Any(int):
    """Equal to every number: readelf prints the text, or the flags' names, in its place."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    __hash__ = int.__hash__


ANY = _Any()


def _texts(text: str) -> list[tuple[str, str]]:
    return [
        (kind, value)
        for kind, value in re.findall(
            r"\((NEEDED|SONAME|RPATH|RUNPATH)\)\s.*?: \[(.*)\]$", text, re.MULTILINE
        )
    ]


def _said(found: ElfObject) -> list[tuple[str, str]]:
    kinds = {1: "NEEDED", 14: "SONAME", 15: "RPATH", 29: "RUNPATH"}
    needed = iter(found.needed)
    single = {"SONAME": found.soname, "RPATH": found.rpath or "", "RUNPATH": found.runpath or ""}
    return [
        (kinds[tag], next(needed) if tag == 1 else single[kinds[tag]])
        for tag, _ in found.dynamic
        if tag in kinds
    ]


@pytest.mark.network
@pytest.mark.toolkit
@pytest.mark.skipif(CUOBJDUMP is None, reason="needs cuobjdump on PATH, or its path in CUOBJDUMP")
@pytest.mark.parametrize("requirement", ["xformers==0.0.35", "cufinufft==2.5.1", "numba-cuda==0.30.4"])
def test_gpu_code_is_what_cuobjdump_lists(wheel: Wheel, requirement: str, tmp_path: Path) -> None:
    path = wheel(requirement)
    with zipfile.ZipFile(path) as archive:
        for found in read(path).objects:
            if not found.containers:
                continue
            place = tmp_path / "member.so"
            place.write_bytes(archive.read(found.file))
            # it lists what is linked, and for what is not only the relocatable code; the audit sees both
            held = [c for c in found.containers if c.section == ".nv_fatbin"]
            assert held
            ours = Counter((e.kind, e.arch.partition("_")[2]) for c in held for e in c.entries)
            assert ours == _listed(place), found.file


def _listed(place: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for kind, option in (("cubin", "-lelf"), ("ptx", "-lptx")):
        done = subprocess.run([str(CUOBJDUMP), option, place], capture_output=True, text=True, check=False)
        found.update(
            (kind, arch) for arch in re.findall(r"\.sm_(\w+)\.(?:cubin|ptx)$", done.stdout, re.MULTILINE)
        )
    return found
