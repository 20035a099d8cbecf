"""`archs = "common"`: every GPU that a toolkit knows runs the result, and without any one part of it some do not."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from plan_samples import LoadRecipe

from gpuforge.cuda import releases
from gpuforge.cuda.releases import common, known_gpus
from gpuforge.cuda.targets import Target
from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.runtime.arch import Arch, binary_mismatch, ptx_mismatch

RELEASES = {release.version: release for release in releases.releases()}
EMBEDDED = {Arch(5, 3), Arch(6, 2), Arch(7, 2), Arch(8, 7), Arch(10, 1), Arch(11, 0)}  # Jetson, DRIVE


class Gap(NamedTuple):
    """A GPU that a toolkit knows and that some architectures leave out: altogether, or `jit`, without machine code."""

    gpu: Arch
    jit: bool


def gaps(wanted: Sequence[Target], release: releases.ToolkitRelease) -> list[Gap]:
    """Return the GPUs of a toolkit that architectures leave without machine code, or altogether."""
    real = [target.arch for target in wanted if target.real]
    virtual = [target.arch for target in wanted if target.ptx]
    found = []
    for gpu in known_gpus(release):
        if any(binary_mismatch(arch, gpu.capability) is None for arch in real):
            continue
        jit = any(ptx_mismatch(arch, gpu.capability) is None for arch in virtual)
        found.append(Gap(gpu, jit))
    return found


@pytest.mark.parametrize(
    ("toolkit", "expected"),
    [
        ("11.8", ("35+ptx", "50", "60", "70", "80", "90")),
        ("12.4", ("50+ptx", "60", "70", "80", "90")),
        ("12.9", ("50+ptx", "60", "70", "80", "90", "100", "120")),
        ("13.0", ("75+ptx", "80", "90", "100", "120")),
    ],
)
def test_what_it_is_for_each_cuda_major(toolkit, expected):
    assert tuple(target.written for target in common(RELEASES[toolkit])) == expected


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_every_gpu_runs_it_and_all_but_embedded_ones_without_the_drivers_compiler(release):
    found = gaps(common(release), release)
    assert all(gap.jit for gap in found)
    assert {gap.gpu for gap in found} <= EMBEDDED


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_nothing_of_it_can_be_left_out(release):
    whole = common(release)
    for left_out in whole:
        found = gaps([target for target in whole if target != left_out], release)
        assert {gap.gpu for gap in found} >= {left_out.arch}
    lowest, *others = whole
    machine_code = [Target(lowest.arch), *others]
    without_ptx = gaps(machine_code, release)
    assert without_ptx
    assert not any(gap.jit for gap in without_ptx)
    newer_ptx = gaps([*machine_code, Target(others[-1].arch, real=False, ptx=True)], release)
    assert any(not gap.jit for gap in newer_ptx), "PTX of a newer architecture leaves embedded GPUs out"


@pytest.fixture
def manifest(tmp_path: Path) -> LoadRecipe:
    def write(archs: str, toolkit: str = "13.0", ptx: str = "") -> ManifestFile:
        file = tmp_path / "gpuforge.toml"
        more = f'\nptx = "{ptx}"' if ptx else ""
        file.write_text(
            'schema = 1\n[package]\nname = "x"\nabi = "none"\n[cuda.12]\ntoolkit = "12.4"\narchs = ["80"]\n'
            f'[cuda.{toolkit.partition(".")[0]}]\ntoolkit = "{toolkit}"\narchs = {archs}{more}\n'
        )
        return load(file)

    return write


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"common"', ("75+ptx", "80", "90", "100", "120")),
        ('["common"]', ("75+ptx", "80", "90", "100", "120")),
        ('["common", "90a", "120+ptx"]', ("75+ptx", "80", "90", "90a", "100", "120+ptx")),
        ('["90+ptx", "80"]', ("90+ptx", "80")),
    ],
)
def test_it_is_replaced_before_anything_is_planned(manifest, written, meant):
    versions = manifest(written).manifest.cuda.versions
    assert versions["13"].archs == meant
    assert versions["12"].archs == ("80",)


def test_a_toolkit_that_is_not_known_has_no_common_architectures(manifest):
    with pytest.raises(UsageError) as caught:
        manifest('"common"', "13.9")
    (told,) = caught.value.diagnostics
    assert told.message == "unknown CUDA toolkit '13.9'"
    assert told.place
    assert told.place.line == 9


def test_the_table_in_the_documentation_is_this_one():
    text = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text()
    rows = re.findall(r"^\| (1\d\.\d+)(?: (?:to|and) (1\d\.\d+))? \| ([^|]+) \|", text, re.MULTILINE)
    told = {
        version: tuple(re.findall(r"`([^`]+)`", archs))
        for first, last, archs in rows
        for version in RELEASES
        if releases.parsed(first) <= releases.parsed(version) <= releases.parsed(last or first)
    }
    assert told == {
        version: tuple(target.written for target in common(release)) for version, release in RELEASES.items()
    }
