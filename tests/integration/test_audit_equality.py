"""The readers against the tools that everyone trusts: readelf for the dynamic section, cuobjdump for GPU code.

GPUFORGE_AUDIT_WHEELS names more wheels to compare: their paths, separated by colons.
"""

import os
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.read.wheel import read
from gpuforge.binary.facts import ElfObject, FatbinContainer

CUOBJDUMP = "nvidia-cuda-cuobjdump==13.5.37"
GIVEN = [path for path in os.environ.get("GPUFORGE_AUDIT_WHEELS", "").split(os.pathsep) if path]

Wheel = Callable[[str], Path]


@pytest.mark.network
@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")
@pytest.mark.parametrize(
    "requirement",
    [
        "neuron-gpu==8.2.2",
        "torchvision==0.29.2",
        "xformers==0.0.35",
        "psutil==7.2.2",
        "scipy==1.17.1",
        "torchaudio==2.8.0 (aarch64)",
        "jax-cuda12-plugin==0.6.2 (aarch64)",
        "nvidia-cuda-cupti-cu12==12.8.90 (aarch64)",
        *GIVEN,
    ],
)
def test_every_dynamic_entry_is_what_readelf_prints(wheel, requirement, tmp_path):
    path = Path(requirement) if requirement in GIVEN else wheel(requirement)
    objects = read(path, patterns()).objects
    assert objects or requirement in GIVEN
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
    paths = {"RPATH": ":".join(found.rpath or ()), "RUNPATH": ":".join(found.runpath or ())}
    single = {"SONAME": found.soname, **paths}
    return [
        (kinds[tag], next(needed) if tag == 1 else single[kinds[tag]])
        for tag, _ in found.dynamic
        if tag in kinds
    ]


@pytest.fixture(scope="session")
def cuobjdump(wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program on PATH, or named by CUOBJDUMP, or of NVIDIA's wheel."""
    if there := os.environ.get("CUOBJDUMP") or shutil.which("cuobjdump"):
        return Path(there)
    folder = tmp_path_factory.mktemp("cuobjdump")
    with zipfile.ZipFile(wheel(CUOBJDUMP)) as archive:
        name = next(n for n in archive.namelist() if n.endswith("/cuobjdump"))
        program = Path(archive.extract(name, folder))
    program.chmod(0o755)
    return program


@pytest.mark.network
@pytest.mark.parametrize(
    "requirement",
    [
        "xformers==0.0.35",
        "cufinufft==2.5.1",
        "cupy-cuda13x==14.2.0",
        "torchao==0.18.0",
        "cudf-cu13==26.10.2",
        *GIVEN,
    ],
)
def test_gpu_code_is_what_cuobjdump_lists(wheel, cuobjdump, requirement, tmp_path):
    path = Path(requirement) if requirement in GIVEN else wheel(requirement)
    compared = 0
    with zipfile.ZipFile(path) as archive:
        for found in read(path, patterns()).objects:
            # it lists what is linked, and for what is not only the relocatable code; the audit sees both
            held = [c for c in found.containers if c.section == ".nv_fatbin"]
            if not held:
                continue
            place = tmp_path / "member.so"
            place.write_bytes(archive.read(found.file))
            listed = _listed(cuobjdump, place)
            if listed is not None:
                compared += 1
                assert _images(found.containers) == listed, found.file
    assert compared or requirement in GIVEN


def _images(containers: Sequence[FatbinContainer]) -> Counter[tuple[str, str]]:
    """Count linked images as cuobjdump names them: without LTO-IR, and families (sm_100f) by their number alone."""
    linked = (e for c in containers if c.section == ".nv_fatbin" for e in c.entries)
    return Counter((e.kind, e.arch.number.rstrip("f")) for e in linked if e.kind in ("cubin", "ptx"))


def _listed(cuobjdump: Path, place: Path) -> Counter[tuple[str, str]] | None:
    """Count what cuobjdump lists; None where it gives up in the middle, as a new one does at an old cubin."""
    found: Counter[tuple[str, str]] = Counter()
    for kind, option in (("cubin", "-lelf"), ("ptx", "-lptx")):
        done = subprocess.run([cuobjdump, option, place], capture_output=True, text=True, check=False)
        if "cuobjdump fatal" in done.stderr:
            return None
        names = re.findall(r"\.sm_(\w+)\.(?:cubin|ptx)$", done.stdout, re.MULTILINE)
        found.update((kind, name.rstrip("f")) for name in names)
    return found
