"""Where a toolkit comes from is decided from the version, the provider and what this machine has."""

import re
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from gpuforge import cuda
from gpuforge.actions import entry
from gpuforge.actions.toolkit import FetchToolkit
from gpuforge.cuda.releases import release, releases
from gpuforge.errors import MissingError, UsageError
from gpuforge.runtime.arch import Arch
from gpuforge.toolkits.providers import debian, pypi, redist
from gpuforge.toolkits.select import select, unsupported
from gpuforge.toolkits.toolkit import Toolkit


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


def test_cuda_13_comes_from_pypi_with_hashes():
    chosen = choose("13.0", libraries=["cufft"])

    assert chosen.provider == "pypi"
    assert chosen.nvcc.startswith("13.0.")
    assert {p.package for p in chosen.source.pins} == {*pypi.COMPILER, "nvidia-cufft", "nvidia-nvjitlink"}
    assert all(
        re.fullmatch(r"[0-9a-f]{64}", p.sha256) and p.filename.endswith(".whl") for p in chosen.source.pins
    )
    assert all("x86_64" in p.filename or "none-any" in p.filename for p in chosen.source.pins)
    assert chosen.size == sum(p.size for p in chosen.source.pins)


@pytest.mark.parametrize("toolkit", pypi.minors())
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_toolkit_on_pypi_is_whole_and_of_one_minor(toolkit, machine):
    chosen = choose(toolkit, machine=machine, libraries=["cufft", "cublas", "cusolver", "cusparse", "curand"])
    versions = {pin.package: pin.version for pin in chosen.source.pins}

    assert len(versions) == len(chosen.source.pins)
    assert {*pypi.COMPILER, "nvidia-cublas", "nvidia-cufft"} <= versions.keys()
    assert all(versions[p].startswith(f"{toolkit}.") for p in pypi.COMPILER if p != "nvidia-cuda-cccl")


def test_the_identity_follows_the_wheels():
    plain, again, more = choose("13.0"), choose("13.0"), choose("13.0", libraries=["cufft"])
    assert plain.identity == again.identity
    assert plain.identity != more.identity
    assert choose("13.0", machine="aarch64").identity != plain.identity


def test_an_installation_of_exactly_that_minor(tmp_path):
    other = install(tmp_path / "cuda-12.6", "12.6", "85", stated="12.6.3")
    wanted = install(tmp_path / "cuda-12.4", "12.4", "131")

    chosen = choose("12.4", search=[other, wanted, tmp_path / "absent"], libraries=["cufft"])

    assert (chosen.provider, chosen.root, chosen.nvcc, chosen.source) == ("system", wanted, "12.4.131", None)
    assert choose("12.6", search=[other]).identity != chosen.identity


def test_the_usual_places(tmp_path, monkeypatch):
    root = install(tmp_path / "cuda", "11.8", "89")
    monkeypatch.setenv("CUDA_PATH", str(root))
    assert choose("11.8", search=None).root == root


def test_other_minors_are_refused(tmp_path):
    root = install(tmp_path / "cuda", "12.6", "85", stated="12.6.3")
    with pytest.raises(MissingError) as caught:
        choose("12.4", search=[root], provider="system")
    assert str(caught.value) == (
        f"no CUDA 12.4 on this machine; found: 12.6.3 in {root}\n"
        "  hint: install it in /usr/local/cuda-12.4, or set CUDA_PATH to its folder; "
        "or gpuforge fetches CUDA 12.4 by debian or redist"
    )
    with pytest.raises(
        MissingError, match=r"or use one of those that gpuforge fetches: 11\.4, 11\.5, .*, 13\."
    ):
        choose("11.2", search=[root])


def test_a_broken_nvcc_is_no_toolkit(tmp_path):
    root = install(tmp_path / "cuda", "12.4", "131")
    (root / "bin" / "nvcc").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(MissingError, match=r"found: none\n"):
        choose("12.4", search=[root], provider="system")


def test_the_first_provider_that_has_the_minor(tmp_path):
    installed = [install(tmp_path / f"cuda-{v}", v, "1") for v in ("13.0", "12.4", "11.2")]
    order = {v: choose(v, search=installed).provider for v in ("13.0", "12.4", "11.2")}
    assert order == {"13.0": "pypi", "12.4": "system", "11.2": "system"}
    order = {v: choose(v).provider for v in ("13.0", "12.4", "11.8", "12.6", "11.4")}
    assert order == {"13.0": "pypi", "12.4": "debian", "11.8": "debian", "12.6": "redist", "11.4": "redist"}
    assert choose("12.4", search=installed, provider="debian").provider == "debian"
    assert choose("13.0", provider="redist").provider == "redist"


def test_a_toolkit_of_debian_is_its_compiler_and_the_wheels_of_pypi():
    chosen = choose("12.4", libraries=["cufft", "cublas"])

    assert (chosen.nvcc, chosen.origin) == ("12.4.131", "Debian trixie and PyPI")
    pins = {pin.package: pin.version for pin in chosen.source.pins}
    assert {"nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-cccl-cu12"} <= pins.keys()
    assert pins["nvidia-cufft-cu12"] == "11.2.1.3"
    assert [part.package for part in chosen.source.parts] == ["nvidia-cuda-toolkit", *["nvidia-cuda-dev"] * 2]
    assert chosen.size == sum(item.size for item in (*chosen.source.pins, *chosen.source.parts))
    assert chosen.identity != choose("12.4").identity


@pytest.mark.parametrize("toolkit", debian.minors())
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_toolkit_of_debian_is_whole_and_pinned(toolkit, machine):
    chosen = choose(toolkit, machine=machine, provider="debian", libraries=["cufft", "cublas", "cusolver"])
    assert chosen.nvcc.startswith(f"{toolkit}.")
    assert len({pin.package for pin in chosen.source.pins}) == len(chosen.source.pins)
    assert all(re.fullmatch(r"[0-9a-f]{64}", part.sha256) for part in chosen.source.parts)
    members = {member.name for part in chosen.source.parts for member in part.members}
    assert members == {"libcudadevrt.a", "libcudart_static.a", "stubs/libcuda.so", "stubs/libnvidia-ml.so"}


@pytest.mark.parametrize("toolkit", redist.minors())
def test_every_release_of_nvidia_s_archives_is_one_of_its_minor(toolkit):
    chosen = choose(toolkit, provider="redist", libraries=["cufft"])
    assert chosen.source is not None
    assert chosen.source.label.rpartition(".")[0] == chosen.nvcc.rpartition(".")[0] == toolkit
    assert {"cuda_nvcc", "cuda_cudart", "libcufft"} <= set(chosen.source.needed)


def test_the_place_of_nvidia_s_archives_is_part_of_the_identity(monkeypatch):
    usual = choose("12.6")
    monkeypatch.setenv("GPUFORGE_REDIST_URL", "http://mirror.example/redist/")
    other = choose("12.6")
    assert usual.source is not None
    assert other.source is not None
    assert usual.source.url.startswith("https://developer.download.nvidia.com/")
    assert other.source.url == "http://mirror.example/redist"
    assert usual.identity != other.identity


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"provider": "pypi"}, UsageError, "PyPI has no compiler of CUDA 12.4"),
        ({"provider": "image"}, MissingError, "this build runs in none"),
        ({"provider": "conda"}, UsageError, "unknown toolkit provider 'conda'"),
        (
            {"version": "12.6", "provider": "debian"},
            UsageError,
            'provider = "debian" has no CUDA 12.6; it has 11.8, 12.4\n  hint: leave the provider out: '
            "gpuforge fetches CUDA 12.6 by redist",
        ),
        ({"version": "12.6", "libraries": ["cuftt"]}, UsageError, "CUDA 12.6 has no library 'cuftt'"),
        ({"machine": "ppc64le"}, UsageError, "no CUDA toolkit for machine 'ppc64le'"),
        (
            {"libraries": ["cuftt"]},
            UsageError,
            r"CUDA 12.4 has no library 'cuftt'\n  hint: did you mean cufft",
        ),
    ],
)
def test_what_is_refused(changes, error, says):
    with pytest.raises(error, match=says):
        choose(**{"version": "12.4", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "suffix"), [("12.4", "-cu12"), ("13.0", "-cu13")])
def test_libraries_outside_the_toolkits_come_from_their_own_packages(version, suffix):
    chosen = choose(version, libraries=["nccl", "cudnn", "cutensor"])
    beside = {f"nvidia-nccl{suffix}", f"nvidia-cudnn{suffix}", f"cutensor{suffix}"}
    assert beside < set(chosen.packages)
    assert "nvidia-cublas" in {
        name.removesuffix(suffix) for name in chosen.packages
    }  # cuDNN's headers need it
    assert not beside & set(choose(version).packages)


def test_a_library_that_is_not_offered_for_this_cuda():
    with pytest.raises(UsageError, match=r"CUDA 11\.8 has no library 'cusparselt'"):
        choose("11.8", libraries=["cusparselt"])


@pytest.mark.parametrize("provider", ["pypi", "debian", "redist"])
def test_a_request_has_the_files_that_a_provider_offered(provider):
    found = choose("13.0" if provider == "pypi" else "12.4", provider=provider, libraries=["cufft"])
    step = FetchToolkit(provider=provider, source=found.source)
    assert entry.load(step.program(), step.text()) == step


TABLE = tomllib.loads(Path(cuda.__file__).with_name("data").joinpath("cuda.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Host:
    family: str
    version: Version


GXX12 = Host("g++", Version("12.2.0"))


def test_the_table_covers_11_2_to_all_of_pypi_in_order():
    versions = [r.version for r in releases()]
    assert versions == sorted(versions, key=Version)
    assert versions[0] == "11.2"
    assert set(pypi.minors()) <= set(versions)


@pytest.mark.parametrize("entry", releases(), ids=lambda r: r.version)
def test_each_row_is_consistent(entry):
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


def test_later_toolkits_write_later_ptx_and_take_later_hosts():
    rows = releases()
    for earlier, later in pairwise(rows):
        assert Version(earlier.ptx) <= Version(later.ptx)
        assert earlier.hosts["g++"][1] <= later.hosts["g++"][1]
        assert earlier.hosts["clang++"][1] <= later.hosts["clang++"][1]


def archs(numbers: str) -> list[Arch]:
    return list(map(Arch.parse, numbers.split()))


def test_what_works_has_no_problem():
    assert unsupported(toolkit="12.4", host=GXX12, archs=archs("70 80 90a"), ptx=Arch(9, 0)) == []
    assert (
        unsupported(
            toolkit="13.0", host=Host("clang++", Version("19.1")), archs=archs("75 100f"), ptx=Arch(12, 0)
        )
        == []
    )
    assert unsupported(toolkit="13.0", host=None, archs=[], ptx=None) == []


def test_architectures_gone_and_to_come():
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


def test_a_host_compiler_too_new():
    (problem,) = unsupported(toolkit="11.8", host=GXX12, archs=archs("80"), ptx=None)
    assert problem.subject == "host"
    assert problem.message == "CUDA 11.8 takes g++ 6 to 11 as host compiler, not 12.2.0"
    assert problem.hint == "use g++ 6 to 11 or clang++ 3 to 14, or CUDA 12.0, which takes g++ 12"


def test_a_host_compiler_that_nothing_takes():
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
def test_an_unknown_toolkit(version, hint):
    with pytest.raises(UsageError) as caught:
        release(version)
    assert str(caught.value).startswith(f"unknown CUDA toolkit {version!r}\n  hint: {hint}")
    (problem,) = unsupported(toolkit=version, host=None, archs=archs("80"), ptx=None)
    assert (problem.subject, problem.message) == ("toolkit", f"unknown CUDA toolkit {version!r}")
