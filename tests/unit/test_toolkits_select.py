"""Where a toolkit comes from is decided from the version, the provider and what this machine has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuforge.errors import MissingError, UsageError
from gpuforge.toolkits import pypi
from gpuforge.toolkits.pypi import Pin
from gpuforge.toolkits.select import Toolkit, select


def install(root: Path, release: str, build: str, *, stated: str = "") -> Path:
    """Make the least that counts as an installed toolkit."""
    (root / "bin").mkdir(parents=True)
    nvcc = root / "bin" / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.{build}'\n")
    nvcc.chmod(0o755)
    if stated:
        (root / "version.json").write_text(f'{{"cuda": {{"name": "CUDA SDK", "version": "{stated}"}}}}')
    return root


def choose(version: str, **changes: object) -> Toolkit:
    asked = {"provider": None, "libraries": [], "machine": "x86_64", "search": [], **changes}
    return select(version, **asked)  # type: ignore[arg-type]


def test_cuda_13_comes_from_pypi_with_hashes() -> None:
    chosen = choose("13.0", libraries=["cufft"])

    assert chosen.provider == "pypi"
    assert chosen.nvcc.startswith("13.0.")
    assert {p.package for p in chosen.pins} == {*pypi.COMPILER, "nvidia-cufft", "nvidia-nvjitlink"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", p.sha256) and p.filename.endswith(".whl") for p in chosen.pins)
    assert all("x86_64" in p.filename or "none-any" in p.filename for p in chosen.pins)
    assert chosen.size == sum(p.size for p in chosen.pins)


@pytest.mark.parametrize("toolkit", pypi.toolkits())
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_toolkit_on_pypi_is_whole_and_of_one_minor(toolkit: str, machine: str) -> None:
    chosen = choose(toolkit, machine=machine, libraries=["cufft", "cublas", "cusolver", "cusparse", "curand"])
    versions = {pin.package: pin.version for pin in chosen.pins}

    assert len(versions) == len(chosen.pins)
    assert {*pypi.COMPILER, "nvidia-cublas", "nvidia-cufft"} <= versions.keys()
    assert all(versions[p].startswith(f"{toolkit}.") for p in pypi.COMPILER if p != "nvidia-cuda-cccl")


def test_the_identity_follows_the_wheels() -> None:
    plain, again, more = choose("13.0"), choose("13.0"), choose("13.0", libraries=["cufft"])
    assert plain.identity == again.identity
    assert plain.identity != more.identity
    assert choose("13.0", machine="aarch64").identity != plain.identity


def test_pins_survive_json() -> None:
    pin = choose("13.0").pins[0]
    assert Pin.from_data(pin.as_data()) == pin
    with pytest.raises(UsageError, match="not a pinned wheel"):
        Pin.from_data({"package": "x"})


def test_an_installation_of_exactly_that_minor(tmp_path: Path) -> None:
    other = install(tmp_path / "cuda-12.6", "12.6", "85", stated="12.6.3")
    wanted = install(tmp_path / "cuda-12.4", "12.4", "131")

    chosen = choose("12.4", search=[other, wanted, tmp_path / "absent"], libraries=["cufft"])

    assert (chosen.provider, chosen.root, chosen.nvcc, chosen.pins) == ("system", wanted, "12.4.131", ())
    assert choose("12.6", search=[other]).identity != chosen.identity


def test_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = install(tmp_path / "cuda", "11.8", "89")
    monkeypatch.setenv("CUDA_PATH", str(root))
    assert choose("11.8", search=None).root == root


def test_other_minors_are_refused(tmp_path: Path) -> None:
    root = install(tmp_path / "cuda", "12.6", "85", stated="12.6.3")
    with pytest.raises(MissingError) as caught:
        choose("12.4", search=[root])
    assert str(caught.value) == (
        f"no CUDA 12.4 on this machine; found: 12.6.3 in {root}\n"
        "  hint: install it in /usr/local/cuda-12.4, or set CUDA_PATH to where it is; "
        f"or use CUDA {pypi.toolkits()[0]} to {pypi.toolkits()[-1]}, which gpuforge fetches from PyPI"
    )


def test_a_broken_nvcc_is_no_toolkit(tmp_path: Path) -> None:
    root = install(tmp_path / "cuda", "12.4", "131")
    (root / "bin" / "nvcc").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(MissingError, match=r"found: none\n"):
        choose("12.4", search=[root])


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"provider": "pypi"}, UsageError, "PyPI has no compiler of CUDA 12.4"),
        ({"provider": "image"}, MissingError, "cannot yet take a CUDA toolkit from a container image"),
        ({"provider": "conda"}, UsageError, "unknown toolkit provider 'conda'"),
        ({"machine": "ppc64le"}, UsageError, "no CUDA toolkit for machine 'ppc64le'"),
        (
            {"libraries": ["cuftt"]},
            UsageError,
            r"CUDA 12.4 has no library 'cuftt'\n  hint: did you mean cufft",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        choose("12.4", **changes)
