"""Kernels in wheels of their own: found beside the package, the driver decides among them, others are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from runtime_samples import write_set

from gpuforge.runtime import KernelLibrary, KernelSet, KernelUnavailable
from gpuforge.runtime.explain import as_data, facts_of
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


def test_without_a_kernels_wheel_it_is_said_what_to_install(site, stub):
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
def test_of_two_kernels_wheels_the_driver_decides(site, stub, monkeypatch, driver, capability, expected):
    monkeypatch.setenv("STUB_VERSION", driver)
    monkeypatch.setenv("STUB_CAPABILITY", capability)
    kernels_wheel(site, 12)
    kernels_wheel(site, 13)
    assert used(site, stub) == expected


def test_explain_names_the_wheel_of_each_candidate(site, stub):
    kernels_wheel(site, 12)
    kernels_wheel(site, 13, version="0.9")
    kernels = kernel_set(site, stub)
    assert kernels.explain().splitlines()[-4:] == [
        "    used     cubin sm_90 of saxpy-kernels-cu12  built for this very architecture",
        "    fits     CPU                                the package's own code; this set has no library for the CPU",
        "    refused  shipped of saxpy-kernels-cu13      saxpy-kernels-cu13 is of version 0.9, and this package of "
        "1.0: pip install 'saxpy[cuda13]'",
        "    refused  cubin sm_70 of saxpy-kernels-cu12  runs on 7.x from 7.0; this device is 9.0",
    ]
    (module,) = as_data(facts_of(kernels))["modules"]
    rows = module["verdicts"][0]["candidates"]
    assert [row.get("wheel") for row in rows] == [
        "saxpy-kernels-cu12", None, "saxpy-kernels-cu13", "saxpy-kernels-cu12"
    ]  # fmt: skip
    assert rows[2]["reason"]["kind"] == "other-version"


def test_kernels_of_another_interface_are_refused(site, stub):
    kernels_wheel(site, 13, sets=[{**SETS[0], "abi": "k2"}, SETS[1]])
    with pytest.raises(
        KernelUnavailable, match="has kernels for the interface k2, and this package was built for k1"
    ):
        kernel_set(site, stub).function("saxpy")


def test_a_damaged_kernels_wheel_is_refused(site, stub):
    (kernels_wheel(site, 13) / "wheel.json").write_text("{")
    with pytest.raises(KernelUnavailable, match=r"wheel\.json: is damaged: it is not valid JSON"):
        kernel_set(site, stub).function("saxpy")


def test_a_removed_kernels_wheel_is_gone(site, stub):
    home = kernels_wheel(site, 13)
    assert used(site, stub)[0] == "cubin sm_90 of saxpy-kernels-cu13"
    (home / "wheel.json").unlink()
    with pytest.raises(KernelUnavailable, match="none is installed"):
        kernel_set(site, stub).candidates("saxpy")


def test_the_copy_beside_the_package_comes_first_unless_only_another_fits(site, tmp_path):
    beside, elsewhere = kernels_wheel(site, 13), kernels_wheel(tmp_path / "user", 13)
    home, path = str(site / "saxpy" / "_gpuforge"), [str(tmp_path / "user")]
    assert [wheel.home for wheel in installed(home, "saxpy", path)] == [str(beside)]
    about = json.loads((beside / "wheel.json").read_text())
    (beside / "wheel.json").write_text(json.dumps({**about, "version": "2.0"}))
    assert [wheel.home for wheel in installed(home, "saxpy", path)] == [str(elsewhere)]
    assert installed(home, "a.saxpy", [""]) == ()


def test_what_is_no_text_in_the_search_path_is_passed_over(site, tmp_path):
    elsewhere = kernels_wheel(tmp_path / "user", 13)
    path: list[Any] = [b"/bytes", 3, None, str(tmp_path / "user")]
    found = installed(str(site / "saxpy" / "_gpuforge"), "saxpy", path)
    assert [wheel.home for wheel in found] == [str(elsewhere)]


def test_a_library_in_a_kernels_wheel_is_judged_like_a_shipped_one(site):
    library = KernelLibrary("default-ops", home=str(site / "saxpy" / "_gpuforge"), package="saxpy", env={})
    assert library.explain() == (
        "kernel library default-ops\n"
        "  refused  shipped  the kernels are in wheels of their own, and none is installed: "
        "pip install 'saxpy[cuda13]' or 'saxpy[cuda12]'"
    )
    folder = kernels_wheel(site, 13) / "kernels" / "default-ops"
    folder.mkdir()
    (folder / "libdefault-ops.so").write_bytes(b"\x7fELF")
    index = {"schema": 1, "name": "default-ops", "kind": "library", "toolkit": "13.0",
             "toolchain": {"family": "nvcc", "version": "13.0.1"},
             "libraries": [{"file": "libdefault-ops.so", "sha256": "00", "size": 5,
                            "images": [{"kind": "cubin", "arch": "sm_90"}]}]}  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index))
    (candidate,) = library.candidates()
    assert candidate.label == "shipped of saxpy-kernels-cu13"
    assert (candidate.accepted, candidate.reason.kind) == (False, "cut-short")


def test_a_sets_cpu_library_is_used_without_any_kernels_wheel(site, stub):
    home = site / "saxpy" / "_gpuforge"
    listing = json.loads((home / "wheels.json").read_text())
    listing["sets"][0]["cpu"] = "on-cpu"
    (home / "wheels.json").write_text(json.dumps(listing))
    folder = home / "kernels" / "on-cpu"
    folder.mkdir(parents=True)
    (folder / "libon-cpu.so").write_bytes(b"\x7fELF")
    index = {"schema": 1, "name": "on-cpu", "kind": "library", "toolkit": "",
             "toolchain": {"family": "g++", "version": "12.2.0"},
             "libraries": [{"file": "libon-cpu.so", "sha256": "00", "size": 4,
                            "images": [{"kind": "library", "arch": ""}]}]}  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index))
    places = kernel_set(site, stub).places()
    assert [(place.origin.label, place.problem and place.problem.kind) for place in places] == [
        ("shipped", "no-kernels-wheel"), ("CPU", "unreadable")
    ]  # fmt: skip
    assert places[-1].path == str(folder / "libon-cpu.so")
