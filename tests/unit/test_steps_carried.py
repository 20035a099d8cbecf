"""Steps about a wheel: the libraries that packages of its build have, what it needs of CUDA's, and its size."""

import os
import platform
import re
from pathlib import Path

import pytest
from audit_samples import elf, wheel

from gpuforge.actions import value_file, write_wheel
from gpuforge.actions.carried import CarriedLibraries
from gpuforge.actions.provided import WheelLinks
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.cuda.provided import CudaNeeds
from gpuforge.errors import ActionError
from gpuforge.manifest.sizes import size_in_words
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


def test_torch_is_known_and_others_are_named(environment):
    torch = Carried("torch", "2.15.0+cu130", "torch", {"libc10.so": "torch/lib"})
    assert found(environment).carried == (torch,)
    solver, other = found(environment, "fast.solver").carried
    assert other == torch
    assert (solver.module, solver.libraries) == ("", {"libfast.so": "solver/libs"})


def test_libraries_of_the_other_packages_are_listed_by_name(environment):
    installed(environment, "librmm-cu13", "26.10.0", librmm__lib64__librmm_so=b"not read")
    assert found(environment).others == {"libfast.so": "fast-solver", "librmm.so": "librmm-cu13"}


def test_a_package_that_the_environment_lacks(environment):
    with pytest.raises(
        ActionError, match="provided-by names cupy, which the build environment does not have"
    ):
        found(environment, "cupy")


def test_a_package_without_libraries(environment):
    with pytest.raises(ActionError, match=r"names numpy, but numpy 2\.0 has no shared libraries"):
        found(environment, "numpy")


@pytest.mark.parametrize(
    ("version", "line"),
    [("2.15.0+cu130", "torch>=2.15,<2.16"), ("3", "torch>=3.0,<3.1"), ("2.1.0rc1", "torch>=2.1,<2.2")],
)
def test_the_series_that_is_required(version, line):
    assert Carried("torch", version, "torch", {}).series == line


OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"


def test_bounds_count_where_they_always_hold(tmp_path):
    counting = [
        "nvidia-cufft>=12.1",
        'nvidia-cufft<13; sys_platform == "linux"',
        f'nvidia-cufft!=12.2; platform_machine == "{platform.machine()}" or python_version < "3"',
    ]
    others = [
        'nvidia-cufft<12; sys_platform == "win32"',
        f'nvidia-cufft<12; platform_machine == "{OTHER}"',
        'nvidia-cufft<12; extra == "old"',
        'nvidia-cufft<12; python_version < "3.12"',
    ]
    files = {"demo/ext.so": elf(needed=["libcufft.so.12"])}
    requires = [*others, *counting]
    step = WheelLinks(wheel=wheel(tmp_path, files, requires=requires), cuda="13.0", machine="x86_64")
    step.run(Workdir(tmp_path / "scratch", tmp_path))
    needs = value_file.read(CudaNeeds, tmp_path / "links.json")
    assert needs == ({"nvidia-cufft": {"libcufft.so.12": []}}, tuple(counting))


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (8_300, "8.3 kB"), (12_700_000, "12.7 MB"), (4_294_967_301, "4.3 GB")],
)
def test_sizes_have_digits_before_the_point(size, words):
    assert size_in_words(size) == words


def test_a_small_wheel_beyond_a_small_limit(tmp_path):
    made = wheel(tmp_path, {"demo/table.bin": os.urandom(3000), "demo/tiny.txt": b"x"})
    with pytest.raises(ActionError) as caught:
        write_wheel.check(made, 1000)
    message = caught.value.diagnostics[0].message
    assert re.search(r"is \d\.\d kB, more than \[wheel\] size-limit of 1\.0 kB; ", message)
    assert "demo/table.bin 3.0 kB" in message
    assert "0.0 MB" not in message


def test_a_wheel_hardly_beyond_its_limit(tmp_path):
    made = wheel(tmp_path, {"demo/table.bin": os.urandom(3000)})
    size = made.stat().st_size
    with pytest.raises(ActionError, match=rf"is {size:,} bytes, more than .* of {size - 1:,} bytes"):
        write_wheel.check(made, size - 1)
