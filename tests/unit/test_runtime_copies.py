"""Copies on a device that outlive a launch: what is written through another view is seen or refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from set_samples import OPENCL_C, install_set

from gpuforge.runtime import KernelSet
from gpuforge.runtime.backends.system import HostMemory
from gpuforge.runtime.copies import DeviceCopies
from gpuforge.runtime.signature import Entry, Parameter

TWO = np.float32(2)


@pytest.fixture(
    params=[pytest.param("opencl", marks=pytest.mark.thorough), "cpu"]
)  # PoCL takes seconds to start
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return `saxpy`, which multiplies each of n numbers by a: on a real device, PoCL, and on the CPU."""
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "kernels")}
    if request.param == "opencl":
        request.getfixturevalue("pocl")
        made = install_set(tmp_path / "packages", OPENCL_C, cpu=False)
    else:
        made = install_set(tmp_path / "packages")
        env["GPUFORGE_OPENCL"] = "0"
    return KernelSet(made / "kernels" / "ops", package="demo", env=env, driver="libnothing.so").function(
        "saxpy"
    )


@pytest.fixture
def copies() -> Iterator[DeviceCopies]:
    with DeviceCopies() as found:
        yield found


def double(copies: DeviceCopies, kernel: Any, x: Any) -> None:
    copies.launch(kernel, 1, 8, np.uint64(len(x)), TWO, x)


def test_a_copy_stays_from_launch_to_launch(kernel, copies):
    x = np.arange(4, dtype="f4")
    double(copies, kernel, x)
    double(copies, kernel, x)
    assert x.tolist() == [0, 1, 2, 3]
    copies.bring_back()
    assert x.tolist() == [0, 4, 8, 12]


def test_what_is_written_on_the_host_is_seen(kernel, copies):
    x = np.ones(4, "f4")
    view = x[1:3]
    double(copies, kernel, x)
    copies.bring_back()
    view[:] = 5
    double(copies, kernel, x)
    copies.bring_back(view)
    assert x.tolist() == [4, 10, 10, 4]


def test_two_writers_of_one_region_are_refused_and_nothing_is_lost(kernel, copies):
    x = np.ones(4, "f4")
    double(copies, kernel, x)
    x[::2] = 7
    for call in (lambda: double(copies, kernel, x), copies.bring_back):
        with pytest.raises(
            ValueError, match=r"written on the host while kernels wrote its copy on the device"
        ):
            call()
    assert x.tolist() == [7, 1, 7, 1]


def test_a_launch_with_an_overlapping_view_sees_what_was_written(kernel, copies):
    x = np.ones(6, "f4")
    double(copies, kernel, x[:4])
    double(copies, kernel, x[2:])
    double(copies, kernel, x[:4])
    copies.bring_back()
    assert x.tolist() == [4, 4, 8, 8, 2, 2]


def test_the_same_memory_as_other_elements_is_no_copy_of_it(kernel, copies):
    x = np.ones(4, "f4")
    double(copies, kernel, x)
    with pytest.raises(TypeError, match="is given, and the parameter is"):
        double(copies, kernel, x.view("i4"))
    double(copies, kernel, x)
    copies.bring_back()
    assert x.tolist() == [4] * 4


class Sum:
    """A kernel on the CPU that reads two arrays and writes a third: y = x + (b > 0)."""

    _entry = Entry(
        "sum", "sum", tuple(Parameter(f"{text} *", 8) for text in ("const float", "const int", "float"))
    )

    def upload(self, array: Any) -> Any:
        memory = HostMemory(array.nbytes)
        memory.write(array)
        return memory

    def launch(self, grid: Any, block: Any, *arguments: Any) -> None:
        x, b, y = (
            np.frombuffer(m.content(), kind, 4) for m, kind in zip(arguments, ("f4", "i4", "f4"), strict=True)
        )
        y[:] = x + (b > 0)


def test_what_is_read_alone_may_overlap(copies):
    x, y = np.arange(6, dtype="f4"), np.zeros(4, "f4")
    for part, expected in ((x[:4], [0, 2, 3, 4]), (x[2:], [2, 4, 5, 6])):
        copies.launch(Sum(), 1, 1, part, x[:4].view("i4"), y)
        copies.bring_back()
        assert y.tolist() == expected
    with pytest.raises(ValueError, match="arguments 1 and 2 overlap in memory"):
        copies.launch(Sum(), 1, 1, x[:4], y.view("i4"), y)


def test_results_are_not_computed_for_an_array_that_cannot_take_them(kernel, copies):
    x = np.ones(4, "f4")
    x.flags.writeable = False
    with pytest.raises(ValueError, match="is read-only, and the kernel may write it: pass a copy"):
        double(copies, kernel, x)


def test_what_is_closed_is_not_brought_back(kernel):
    x = np.ones(4, "f4")
    with DeviceCopies() as copies:
        double(copies, kernel, x)
    copies.close()
    assert x.tolist() == [1] * 4
