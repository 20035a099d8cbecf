"""Wheels for aarch64, built, proved and tested under emulation beside those of this machine (docs/containers.md)."""

import platform
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from builds import build, copy_recipe, edit

from gpuforge.containers import catalog, emulation
from gpuforge.containers.images import Images

IMAGES = ("bookworm", "bookworm-test")
AARCH64 = 183  # e_machine

pytestmark = [
    *(pytest.mark.docker, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("docker")),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates aarch64 on x86-64"),
    pytest.mark.skipif(not emulation.runs("aarch64"), reason=f"no emulation of aarch64: {emulation.HINT}"),
    pytest.mark.usefixtures("bookworm_images"),
]


@pytest.fixture(scope="module", autouse=True)
def _images_of_aarch64() -> None:
    """Skip without the images, which take long to make."""
    with closing(Images()) as images:
        for name in IMAGES:
            image = catalog.find(name, "aarch64")
            if image and not images.find(image.reference):
                pytest.skip(f"not here: {image.to_build}")


def content(folder: Path, machine: str) -> dict[str, bytes]:
    (wheel,) = folder.glob(f"*{machine}.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_wheel_for_aarch64_is_tested_has_the_kernels_of_x86_64_and_the_same_bytes_again(tmp_path):
    recipe = copy_recipe("saxpy", tmp_path)
    edit(recipe, ("[wheel]", '[wheel]\nmachines = ["x86_64", "aarch64"]'))
    chosen = ("--runner", "docker", "--cuda", "13", "--python", "3.11")
    made = build(recipe, *chosen, "-o", tmp_path / "both", cache=tmp_path / "cache")
    assert [each["cell"] for each in made["wheels"]] == ["cp311-cu13.0-x86_64", "cp311-cu13.0-aarch64"]
    assert len(made["tests"]) == 2
    intel, arm = (content(tmp_path / "both", machine) for machine in ("x86_64", "aarch64"))
    kernels = {name for name in intel if name.endswith(".fatbin")}
    assert kernels
    assert {name: intel[name] for name in kernels} == {name: arm[name] for name in kernels}
    libraries = [data for name, data in arm.items() if name.endswith(".so")]
    assert {int.from_bytes(data[18:20], "little") for data in libraries} == {AARCH64}
    again = build(
        recipe, *chosen, "--machine", "aarch64", "-o", tmp_path / "again", cache=tmp_path / "other cache"
    )
    assert [each["cell"] for each in again["wheels"]] == ["cp311-cu13.0-aarch64"]
    assert content(tmp_path / "again", "aarch64") == arm
