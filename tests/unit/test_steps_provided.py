"""Floors and forgotten requirements, found by walking made-up packages."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gpuforge.actions import value_file
from gpuforge.actions.provided_search import Contents, IndexWheel, PackageIndex, Search
from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.cuda import provided
from gpuforge.cuda.provided import Provided
from gpuforge.errors import ActionError
from gpuforge.package import requirements
from gpuforge.requirements import Release

CURAND, CUDART, CUFFT = "nvidia-curand", "nvidia-cuda-runtime", "nvidia-cufft"
Library = tuple[str, tuple[str, ...], set[str], set[str]]  # SONAME, NEEDED, defines, wants


class Shelf:
    """The index, in memory: releases by package and version, each with what it requires and its libraries."""

    def __init__(self, releases: Mapping[tuple[str, str], tuple[list[str], list[Library]]]) -> None:
        self._releases = releases
        self.read: list[str] = []

    def wheels(self, package: str) -> list[IndexWheel]:
        return [IndexWheel(p, v, f"{p}-{v}.whl", "", f"{p}{v}") for p, v in self._releases if p == package]

    def contents(self, wheel: IndexWheel) -> Contents:
        requires, libraries = self._releases[wheel.package, wheel.version]
        return Contents(tuple(requires), {name: f"nvidia/cu13/lib/{name}" for name, *_ in libraries})

    def library(self, wheel: IndexWheel, soname: str) -> tuple[str, LinkedFile]:
        self.read.append(f"{wheel.package} {wheel.version}")
        _, libraries = self._releases[wheel.package, wheel.version]
        (found,) = (each for each in libraries if each[0] == soname)
        _, needed, defines, wants = found
        return "nvidia/cu13/lib", LinkedFile(
            soname, needed, defined=frozenset(defines), undefined=frozenset(wants)
        )


def curand(needed: tuple[str, ...] = (), *more: str) -> list[Library]:
    return [("libcurand.so.10", needed, {"curandCreate", *more}, {"cudaMalloc"} if needed else set())]


def cudart(*defines: str) -> list[Library]:
    return [("libcudart.so.13", (), {*defines}, set())]


def metapackage(**pins: str) -> list[str]:
    packages = {"curand": CURAND, "cudart": CUDART, "cufft": CUFFT}
    return [f"{packages[e]}=={v}.*; sys_platform == 'linux' and extra == '{e}'" for e, v in pins.items()]


NEEDS = ("libcudart.so.13",)
RELEASES: dict[tuple[str, str], tuple[list[str], list[Library]]] = {
    ("cuda-toolkit", "13.0.0"): (metapackage(curand="10.4.0.35", cudart="13.0.48"), []),
    ("cuda-toolkit", "13.0.1"): (metapackage(curand="10.4.0.50", cudart="13.0.88"), []),
    ("cuda-toolkit", "13.5.0"): (metapackage(curand="10.4.5.25", cudart="13.5.37"), []),
    (CURAND, "10.4.0.35"): ([], curand()),
    (CURAND, "10.4.0.50"): ([], curand((), "curandNew")),
    (CURAND, "10.4.5.25"): ([], curand(NEEDS, "curandNew")),
    (CUDART, "13.0.48"): ([], cudart()),
    (CUDART, "13.0.88"): ([], cudart("cudaMalloc")),
    (CUDART, "13.5.37"): ([], cudart("cudaMalloc")),
}
CREATE = {CURAND: {"libcurand.so.10": ["curandCreate", "malloc"]}}


def search(wanted: Mapping[str, Mapping[str, list[str]]], *own: str, **changed: object) -> Provided:
    shelf = Shelf({**RELEASES, **changed})  # type: ignore[dict-item]
    return Search(shelf, 13, [Requirement(line) for line in own], "x86_64").run(wanted)  # type: ignore[arg-type]


def lines(found: Provided) -> list[str]:
    return [provided.requirement(floor, 13) for floor in found.floors]


def test_what_the_newest_release_needs_and_does_not_declare_is_found():
    found = search(CREATE)
    assert lines(found) == ["nvidia-cuda-runtime>=13.0.88,<14", "cuda-toolkit[curand]>=13.0,<14"]
    runtime, own = found.floors
    assert (runtime.forgotten_by, runtime.refused, runtime.direct) == (
        (Release(CURAND, "10.4.5.25"),), ("13.0.48",), False,
    )  # fmt: skip
    assert (
        provided.reason(own)
        == "nvidia-curand: floor 13.0: all 1 symbol of libcurand are in nvidia-curand 10.4.0.35"
    )
    roles = [(r.package, r.version, r.role) for r in found.releases]
    assert roles == [
        (CUDART, "13.0.88", "oldest"),
        (CUDART, "13.5.37", "newest"),
        (CURAND, "10.4.0.35", "oldest"),
        (CURAND, "10.4.5.25", "newest"),
    ]


def test_what_was_found_is_read_again_as_it_was_written(tmp_path):
    found = search(CREATE)
    value_file.write(found, tmp_path / "provided.json")
    assert value_file.read(Provided, tmp_path / "provided.json") == found


def test_a_declared_requirement_is_not_forgotten():
    shelf = Shelf({**RELEASES, (CURAND, "10.4.5.25"): ([CUDART], curand(NEEDS))})
    found = Search(shelf, 13, [], "x86_64").run(CREATE)  # type: ignore[arg-type]
    assert [floor.forgotten_by for floor in found.floors] == [(), ()]


@pytest.mark.parametrize(
    ("marker", "declared"),
    [
        ("sys_platform == 'linux'", True),
        ("sys_platform != 'win32' and platform_machine == 'x86_64'", True),
        ("sys_platform == 'win32'", False),
        ("sys_platform != 'linux'", False),
        ("platform_machine == 'aarch64'", False),
        ("extra == 'linux'", False),
    ],
)
def test_a_requirement_counts_where_its_marker_holds(marker, declared):
    shelf = Shelf({**RELEASES, (CURAND, "10.4.5.25"): ([f"{CUDART}; {marker}"], curand(NEEDS))})
    found = Search(shelf, 13, [], "x86_64").run(CREATE)  # type: ignore[arg-type]
    forgotten = () if declared else (Release(CURAND, "10.4.5.25"),)
    assert [floor.forgotten_by for floor in found.floors if floor.package == CUDART] == [forgotten]


def test_what_the_metapackage_pins_for_other_systems_is_not_pinned_here():
    pins = [
        *metapackage(curand="10.4.0.35", cudart="13.0.48"),
        f"{CURAND}==9.*; sys_platform != 'linux' and 'curand' == extra",
    ]
    shelf = Shelf({**RELEASES, ("cuda-toolkit", "13.0.0"): (pins, [])})
    assert Search(shelf, 13, [], "x86_64").run(CREATE) == search(CREATE)  # type: ignore[arg-type]


def test_a_symbol_of_a_later_release_lifts_the_floor_and_the_metapackage_with_it():
    found = search({CURAND: {"libcurand.so.10": ["curandCreate", "curandNew"]}})
    assert lines(found)[1] == "cuda-toolkit[curand]>=13.0.1,<14"
    assert provided.reason(found.floors[1]) == (
        "nvidia-curand: floor 13.0: all 2 symbols of libcurand are in nvidia-curand 10.4.0.50, and not in 10.4.0.35"
    )


def test_the_projects_own_bounds_say_which_releases_count():
    found = search(CREATE, "nvidia_curand<10.4.5")
    assert [(floor.package, floor.forgotten_by) for floor in found.floors] == [(CURAND, ())]
    assert {r.version for r in found.releases} == {"10.4.0.35", "10.4.0.50"}
    with pytest.raises(ActionError, match=r"the package index has no nvidia-curand>=11 for this machine"):
        search(CREATE, "nvidia-curand>=11")


def test_a_library_that_no_package_brings_is_missing():
    shelf = Shelf({**RELEASES, (CURAND, "10.4.5.25"): ([], curand(("libcudart.so.12",)))})
    found = Search(shelf, 13, [], "x86_64").run(CREATE)  # type: ignore[arg-type]
    assert found.missing == (("libcudart.so.12", Release(CURAND, "10.4.5.25")),)


def test_a_library_that_the_newest_release_lost_is_an_error():
    with pytest.raises(ActionError) as caught:
        search({CURAND: {"libcurand.so.9": ["curandCreate"]}})
    assert str(caught.value) == (
        "the wheel needs libcurand.so.9, but the newest allowed nvidia-curand, 10.4.5.25, does not have it\n"
        "  hint: require an older nvidia-curand in the project's dependencies, or build with a newer toolkit"
    )


@pytest.mark.parametrize(
    ("package", "tells"),
    [("nvidia-cufft", True), (CUDART, True), (CURAND, False), ("nvidia-cusparse", False), ("nvidia-cufile", False),
     ("nvidia-curand-cu12", True)],
)  # fmt: skip
def test_which_packages_are_of_one_cuda_major_by_their_own_number(package, tells):
    assert provided.tells_major(package, 13) is tells


@pytest.mark.parametrize(
    ("own", "enough"),
    [
        ("cuda-toolkit[curand]==13.*", True),
        ("cuda-toolkit[curand,cudart]>=13.0,<14", True),
        ("cuda-toolkit[cudart]==13.*", False),
        ("cuda-toolkit[curand]>=12,<14", False),
        ("nvidia-curand==10.4.*", True),
        ("nvidia-curand>=10.4,<11", False),
    ],
)
def test_the_projects_own_line_is_enough_where_it_holds_the_cuda_major(own, enough):
    floor = next(f for f in search(CREATE).floors if f.package == CURAND)
    bounds = requirements.bounds_of([floor], 13)[CURAND]
    text = f"Name: a\nVersion: 1\nRequires-Dist: {own}\n".encode()
    _, added = requirements.require(text, {CURAND: "10.4.0.50"}, proved={CURAND: bounds})
    assert added == ([] if enough else ["cuda-toolkit[curand]>=13.0,<14"])


@pytest.mark.thorough
def test_what_was_read_of_a_wheel_is_read_once(tmp_path):
    wheel = IndexWheel(CURAND, "10.4", "curand.whl", "https://example.org/curand.whl", "a" * 64)
    library = linked_file.read(Path(sys.executable).resolve())
    assert library is not None
    times = []

    def read() -> LinkedFile:
        times.append(1)
        return library

    index = PackageIndex(tmp_path, "x86_64")
    assert [index._cached(wheel, "libcurand.so.10", LinkedFile, read) for _ in range(2)] == [library] * 2
    (file,) = tmp_path.rglob("*.json")
    file.write_text(file.read_text()[:-20])  # as after a crash
    assert index._cached(wheel, "libcurand.so.10", LinkedFile, read) == library
    assert len(times) == 2
