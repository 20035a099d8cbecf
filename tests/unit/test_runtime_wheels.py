"""Kernels in wheels of their own: found beside the package, the driver decides among them, others are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runtime_samples import write_set

from gpuforge.runtime import KernelSet, KernelUnavailable
from gpuforge.runtime.wheels import installed

SETS = [
    {"name": "default-kernels", "kind": "module", "abi": "k1"},
    {"name": "default-ops", "kind": "library", "abi": "1-aa", "stands-in-for": "ops"},
]


def host(site: Path, version: str = "1.0") -> Path:
    home = site / "saxpy" / "_gpuforge"
    home.mkdir(parents=True)
    wheels = [
        {"distribution": f"saxpy-kernels-cu{n}", "folder": f"saxpy_kernels_cu{n}", "extra": f"cuda{n}"}
        for n in (13, 12)
    ]
    listing = {"schema": 1, "distribution": "saxpy", "version": version, "wheels": wheels, "sets": SETS}
    (home / "wheels.json").write_text(json.dumps(listing))
    return home


def kernels_wheel(site: Path, cuda: int, version: str = "1.0", **changes: Any) -> Path:
    home = site / f"saxpy_kernels_cu{cuda}" / "_gpuforge"
    images = [{"kind": "cubin", "arch": "sm_90"}] + [{"kind": "cubin", "arch": "sm_70"}] * (cuda < 13)
    folder = write_set(home / "kernels" / "default-kernels", b"of CUDA %d" % cuda, toolkit=f"{cuda}.0")
    index = json.loads((folder / "index.json").read_text())
    index["modules"][0]["images"] = images
    index["toolchain"]["version"] = f"{cuda}.0.1"
    (folder / "index.json").write_text(json.dumps(index))
    about = {
        "schema": 1,
        "distribution": f"saxpy-kernels-cu{cuda}",
        "version": version,
        "sets": SETS,
        **changes,
    }
    (home / "wheel.json").write_text(json.dumps(about))
    return home


@pytest.fixture
def site(tmp_path: Path) -> Path:
    host(tmp_path / "site")
    return tmp_path / "site"


def kernel_set(site: Path, driver: str) -> KernelSet:
    folder = site / "saxpy" / "_gpuforge" / "kernels" / "default-kernels"
    return KernelSet(folder, package="saxpy", env={}, driver=driver)


def used(site: Path, driver: str) -> list[str]:
    return [c.label for c in kernel_set(site, driver).candidates("saxpy") if c.accepted]


def test_without_a_kernels_wheel_it_is_said_what_to_install(site: Path, stub: str) -> None:
    with pytest.raises(KernelUnavailable) as caught:
        kernel_set(site, stub).function("saxpy")
    assert caught.value.reasons == (
        "the kernels are in wheels of their own, and none is installed: "
        "pip install 'saxpy[cuda13]' or 'saxpy[cuda12]'",
    )


@pytest.mark.parametrize(
    ("driver", "capability", "expected"),
    [
        ("13000", "90", ["cubin sm_90 of saxpy-kernels-cu13", "cubin sm_90 of saxpy-kernels-cu12", "CPU"]),
        ("12040", "90", ["cubin sm_90 of saxpy-kernels-cu12", "CPU"]),
        ("13000", "70", ["cubin sm_70 of saxpy-kernels-cu12", "CPU"]),
        ("11040", "90", ["CPU"]),
    ],
)
def test_of_two_kernels_wheels_the_driver_decides(
    site: Path,
    stub: str,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    capability: str,
    expected: list[str],
) -> None:
    monkeypatch.setenv("STUB_VERSION", driver)
    monkeypatch.setenv("STUB_CAPABILITY", capability)
    kernels_wheel(site, 12)
    kernels_wheel(site, 13)
    assert used(site, stub) == expected


def test_the_copy_beside_the_package_comes_first_unless_only_another_fits(site: Path, tmp_path: Path) -> None:
    beside, elsewhere = kernels_wheel(site, 13), kernels_wheel(tmp_path / "user", 13)
    home, path = str(site / "saxpy" / "_gpuforge"), [str(tmp_path / "user")]
    assert [wheel.home for wheel in installed(home, "saxpy", path)] == [str(beside)]
    about = json.loads((beside / "wheel.json").read_text())
    (beside / "wheel.json").write_text(json.dumps({**about, "version": "2.0"}))
    assert [wheel.home for wheel in installed(home, "saxpy", path)] == [str(elsewhere)]
    assert installed(home, "a.saxpy", [""]) == ()


def test_what_is_no_text_in_the_search_path_is_passed_over(site: Path, tmp_path: Path) -> None:
    elsewhere = kernels_wheel(tmp_path / "user", 13)
    path: list[Any] = [b"/bytes", 3, None, str(tmp_path / "user")]
    found = installed(str(site / "saxpy" / "_gpuforge"), "saxpy", path)
    assert [wheel.home for wheel in found] == [str(elsewhere)]
