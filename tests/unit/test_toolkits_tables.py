"""The toolkit table is consistent, and what cannot work is refused with the nearest that can."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from gpuforge import cuda
from gpuforge.cuda.releases import release, releases
from gpuforge.errors import UsageError
from gpuforge.runtime.arch import Arch
from gpuforge.toolkits.providers import pypi
from gpuforge.toolkits.select import unsupported

TABLE = tomllib.loads(Path(cuda.__file__).with_name("data").joinpath("cuda.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Host:
    family: str
    version: Version


GXX12 = Host("g++", Version("12.2.0"))


def test_the_table_covers_11_2_to_all_of_pypi_in_order() -> None:
    versions = [r.version for r in releases()]
    assert versions == sorted(versions, key=Version)
    assert versions[0] == "11.2"
    assert set(pypi.minors()) <= set(versions)


@pytest.mark.parametrize("entry", releases(), ids=lambda r: r.version)
def test_each_row_is_consistent(entry: object) -> None:
    row = release(entry.version)  # type: ignore[attr-defined]
    written = next(each for each in TABLE["toolkit"] if each["version"] == row.version)
    assert all(low < high for low, high in row.hosts.values())
    assert [arch.number for arch in row.archs] == written["archs"]
    assert len(set(row.archs)) == len(row.archs)
    assert all(Arch(*arch.capability) in row.archs for arch in row.archs)
    assert set(map(Arch.parse, written["deprecated"])) <= set(row.archs)
    assert row.source.startswith("https://")
    assert written["host-source"].startswith("https://")
    if row.driver:
        assert Version(row.driver) >= Version(row.driver_floor)


def test_later_toolkits_write_later_ptx_and_take_later_hosts() -> None:
    rows = releases()
    for earlier, later in pairwise(rows):
        assert Version(earlier.ptx) <= Version(later.ptx)
        assert earlier.hosts["g++"][1] <= later.hosts["g++"][1]
        assert earlier.hosts["clang++"][1] <= later.hosts["clang++"][1]


def archs(numbers: str) -> list[Arch]:
    return list(map(Arch.parse, numbers.split()))


def test_what_works_has_no_problem() -> None:
    assert unsupported(toolkit="12.4", host=GXX12, archs=archs("70 80 90a"), ptx=Arch(9, 0)) == []
    assert (
        unsupported(
            toolkit="13.0", host=Host("clang++", Version("19.1")), archs=archs("75 100f"), ptx=Arch(12, 0)
        )
        == []
    )
    assert unsupported(toolkit="13.0", host=None, archs=[], ptx=None) == []


def test_architectures_gone_and_to_come() -> None:
    gone, unknown, to_come, family, ptx = unsupported(
        toolkit="13.0", host=None, archs=archs("70 80 91 107 90f"), ptx=Arch(6, 0)
    )
    assert [p.item for p in (gone, unknown, to_come, family, ptx)] == [0, 2, 3, 4, None]
    assert gone.message.startswith("CUDA 13.0 does not compile for sm_70; it knows 75, 80,")
    assert gone.hint == "CUDA 12.9 was the last that did; the nearest architecture here is 75"
    assert unknown.hint == "no known toolkit has sm_91; the nearest architecture here is 90"
    assert to_come.hint == "CUDA 13.4 is the first that does; the nearest architecture here is 110"
    assert family.hint == "no known toolkit has sm_90f; the nearest architecture here is 90"
    assert (ptx.subject, ptx.message[:43]) == ("ptx", "CUDA 13.0 does not compile for compute_60; ")


def test_a_host_compiler_too_new() -> None:
    (problem,) = unsupported(toolkit="11.8", host=GXX12, archs=archs("80"), ptx=None)
    assert problem.subject == "host"
    assert problem.message == "CUDA 11.8 takes g++ 6 to 11 as host compiler, not 12.2.0"
    assert problem.hint == "use g++ 6 to 11 or clang++ 3 to 14, or CUDA 12.0, which takes g++ 12"


def test_a_host_compiler_that_nothing_takes() -> None:
    (newest,) = unsupported(toolkit="13.0", host=Host("g++", Version("99.1")), archs=[], ptx=None)
    hosts = [f"{family} {low} to {high}" for family, (low, high) in release("13.0").hosts.items()]
    assert newest.hint == f"use {' or '.join(hosts)}"
    (other,) = unsupported(toolkit="13.0", host=Host("nvc++", Version("24.7")), archs=[], ptx=None)
    assert other.message == "nvc++ is not known to work as host compiler of CUDA 13.0"


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("12.7", "nearest: 12.6 and 12.8; known: 11.2,"),
        ("10.2", "nearest: 11.2; known: 11.2,"),
        ("12.4.1", "name the minor only: '12.4'"),
        ("11", "name the minor too: 11.2, 11.3, 11.4, 11.5, 11.6, 11.7, 11.8"),
        ("latest", "write it as in '13.0'; known: 11.2,"),
    ],
)
def test_an_unknown_toolkit(version: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        release(version)
    assert str(caught.value).startswith(f"unknown CUDA toolkit {version!r}\n  hint: {hint}")
    (problem,) = unsupported(toolkit=version, host=None, archs=archs("80"), ptx=None)
    assert (problem.subject, problem.message) == ("toolkit", f"unknown CUDA toolkit {version!r}")
