"""What gpuforge puts into wheels is read into values; a document that does not fit its schema is one of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from audit_samples import wheel

from gpuforge.audit import audit
from gpuforge.audit.kernels import Index, KernelsWheels, ListedFile, Recipe, Unusable, UserToolchain
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.report.sentences import lines
from gpuforge.cuda.arch import Arch
from gpuforge.cuda.cpu_level import CpuLevel
from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.expectation import Expectation

HOME = "demo/_gpuforge"
MODULE: dict[str, Any] = {"file": "k.fatbin", "sha256": "aa", "images": [{"kind": "cubin", "arch": "sm_80"}]}
INDEX: dict[str, Any] = {"schema": 1, "modules": [MODULE]}
RECIPE: dict[str, Any] = {
    "schema": 1,
    "abi": "1-0a",
    "sources": [{"file": "a.cpp", "sha256": "aa"}],
    "includes": [{"file": "a.h", "sha256": "bb"}],
    "toolchains": [
        {"name": "host", "runtimes": ["libgomp.so.1"], "places": ["/opt/x"], "argv": ["c++", ["-O2"]]}
    ],
    "fallbacks": ["k"],
    "cpu": "c",
}
LISTING = {
    "version": "1.0",
    "wheels": [{"distribution": "demo-kernels-cu13"}],
    "sets": [{"name": "default-kernels", "abi": "k1"}],
}


def facts(folder: Path, name: str, document: object) -> WheelFacts:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return audit([wheel(folder, {f"{HOME}/{name}": data})]).graph.wheels[0]


def index(folder: Path, document: object) -> Index | Unusable:
    (found,) = facts(folder, "kernels/k/index.json", document).kernels
    return found.listing


def recipe(folder: Path, document: object) -> Recipe | Unusable:
    (found,) = facts(folder, "sources/m/recipe.json", document).sources
    return found.recipe


def test_an_index(tmp_path: Path) -> None:
    file = ListedFile("k.fatbin", "aa", (KernelImage("cubin", Arch(8, 0)),))
    assert index(tmp_path, INDEX) == Index("module", (file,))
    library = {
        "schema": 1,
        "kind": "library",
        "abi": "1-0a",
        "libraries": [{**MODULE, "sha256": 7}, {"images": []}],
    }
    assert index(tmp_path, library) == Index(
        "library", (ListedFile("k.fatbin", "", file.images), ListedFile("", "")), "1-0a"
    )


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"[" * 100_000, "syntax"),
        (b"{", "syntax"),
        ([], "type"),
        (b" " * (1 << 20) + b"{}", "size"),
        ({"schema": 2, "modules": [MODULE]}, "schema"),
        ({"schema": 1, "modules": []}, "schema"),
        ({"schema": 1, "modules": {"file": "x"}}, "schema"),
        ({"schema": 1, "modules": ["x", {}], "abi": 7}, "schema"),
        ({"schema": 1, "modules": [{**MODULE, "images": ["x"]}]}, "schema"),
        ({"schema": 1, "modules": [{**MODULE, "images": [{"kind": "cubin"}]}]}, "schema"),
        ({"schema": 1, "modules": [{**MODULE, "images": [{"kind": "cubin", "arch": "gfx90a"}]}]}, "schema"),
        ({"schema": 1, "modules": [{**MODULE, "images": [{"kind": "iree-vulkan", "arch": "x"}]}]}, "schema"),
    ],
)
def test_an_index_that_cannot_be_used(document: object, problem: str, tmp_path: Path) -> None:
    found = index(tmp_path, document)
    assert isinstance(found, Unusable)
    assert found.kind == problem


def test_a_recipe(tmp_path: Path) -> None:
    assert recipe(tmp_path, RECIPE) == Recipe(
        files=(ListedFile("a.cpp", "aa"), ListedFile("a.h", "bb")),
        toolchains=(UserToolchain("host", ("libgomp.so.1",)),),
        stand_ins=("k", "c"),
        abi="1-0a",
        texts=("1-0a", "a.cpp", "aa", "a.h", "bb", "host", "libgomp.so.1", "c++", "-O2", "k", "c"),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"sources": []},
        {"sources": "a.cpp"},
        {"includes": {}},
        {"toolchains": []},
        {"toolchains": ["host"]},
        {"toolchains": [{"name": "host", "runtimes": [7]}]},
        {"fallbacks": [None]},
        {"cpu": []},
        {"abi": 1},
    ],
)
def test_a_recipe_that_does_not_fit(change: dict[str, object], tmp_path: Path) -> None:
    assert recipe(tmp_path, RECIPE | change) == Unusable("schema")


def test_a_list_of_kernels_wheels(tmp_path: Path) -> None:
    found = facts(tmp_path, "wheels.json", LISTING)
    assert found.kernels_wheel is None
    assert found.kernels_wheels == KernelsWheels(
        "1.0", {"default-kernels": "k1"}, frozenset({"demo-kernels-cu13"})
    )


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"version": 1, "sets": []}, "it lacks the version or the kernel sets"),
        (
            {"version": "1.0", "sets": [{"name": "default-kernels"}]},
            "it lacks the version or the kernel sets",
        ),
        ([], "it is not a JSON object"),
    ],
)
def test_a_kernels_wheel_that_the_runtime_cannot_read(document: object, problem: str, tmp_path: Path) -> None:
    own = wheel(tmp_path, {f"{HOME}/wheels.json": json.dumps(LISTING).encode()})
    files = {"demo_kernels_cu13/_gpuforge/wheel.json": json.dumps(document).encode()}
    kernels = wheel(tmp_path, files, name="demo_kernels_cu13-1.0-py3-none-manylinux2014_x86_64.whl")
    (found,) = (f for f in audit([own, kernels]).findings if f.code == "GF711")
    assert lines(found) == (f"its wheel.json cannot be used: {problem}",)


def test_the_images_are_those_of_the_manifests_targets(tmp_path: Path) -> None:
    images = [{"kind": "iree-cuda", "arch": "compute_60"}, {"kind": "iree-vulkan", "arch": ""}]
    document = {"schema": 1, "modules": [{"file": "k.vmfb", "sha256": "aa", "images": images}]}
    path = wheel(tmp_path, {f"{HOME}/kernels/k/index.json": json.dumps(document).encode()})
    targets = KernelImage("iree-cuda", Arch(6, 0)), KernelImage("iree-cpu", CpuLevel())
    (found,) = (
        f
        for f in audit([path], expectation=Expectation(targets={"k": targets})).findings
        if f.code == "GF701"
    )
    file = f"{HOME}/kernels/k/index.json"
    assert lines(found)[1:] == (
        f"{file}: it has nothing for the target iree-cpu of the manifest",
        f"{file}: it has iree-vulkan, which is not a target of the manifest",
    )
