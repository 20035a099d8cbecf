"""The libraries of a build environment's packages: those that the manifest names, and those that are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf

from gpuforge.actions import value_file
from gpuforge.actions.carried import CarriedLibraries
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.errors import ActionError
from gpuforge.plan.action import Workdir


def installed(environment: Path, name: str, version: str, **files: bytes) -> None:
    """Install a package: names of files have "__" for "/"."""
    site = environment / "lib/python3.11/site-packages"
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    places = {place.replace("__", "/").replace("_so", ".so"): data for place, data in files.items()}
    for place, data in places.items():
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_bytes(data)
    (info / "RECORD").write_text("".join(f"{place},,\n" for place in places))


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    init = {"torch__init": b""}
    installed(
        tmp_path,
        "torch",
        "2.15.0+cu130",
        torch__lib__libc10_so=elf(soname="libc10.so"),
        torch___C_so=elf(),
        **init,
    )
    (tmp_path / "lib/python3.11/site-packages/torch/__init__.py").write_text("")
    installed(tmp_path, "Fast-Solver", "1.2", solver__libs__libfast_so=elf())
    installed(tmp_path, "numpy", "2.0", numpy__core_so=elf())
    return tmp_path


def found(environment: Path, *packages: str) -> BuildLibraries:
    CarriedLibraries(env=environment, named=packages).run(Workdir(environment, environment))
    return value_file.read(BuildLibraries, environment / "carried.json")


def test_torch_is_known_and_others_are_named(environment: Path) -> None:
    torch = Carried("torch", "2.15.0+cu130", "torch", {"libc10.so": "torch/lib"})
    assert found(environment).carried == (torch,)
    solver, other = found(environment, "fast.solver").carried
    assert other == torch
    assert (solver.module, solver.libraries) == ("", {"libfast.so": "solver/libs"})


def test_libraries_of_the_other_packages_are_listed_by_name(environment: Path) -> None:
    installed(environment, "librmm-cu13", "26.10.0", librmm__lib64__librmm_so=b"not read")
    assert found(environment).others == {"libfast.so": "fast-solver", "librmm.so": "librmm-cu13"}


def test_a_package_that_the_environment_lacks(environment: Path) -> None:
    with pytest.raises(
        ActionError, match="provided-by names cupy, which the build environment does not have"
    ):
        found(environment, "cupy")


def test_a_package_without_libraries(environment: Path) -> None:
    with pytest.raises(ActionError, match=r"names numpy, but numpy 2\.0 has no shared libraries"):
        found(environment, "numpy")


@pytest.mark.parametrize(
    ("version", "line"),
    [("2.15.0+cu130", "torch>=2.15,<2.16"), ("3", "torch>=3.0,<3.1"), ("2.1.0rc1", "torch>=2.1,<2.2")],
)
def test_the_series_that_is_required(version: str, line: str) -> None:
    assert Carried("torch", version, "torch", {}).series == line
