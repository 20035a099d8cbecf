"""What gpuforge puts into wheels is read into values; a document that does not fit its schema is one of its own."""

import json
from pathlib import Path

import pytest
from audit_samples import wheel
from document_samples import INDEX, LIBRARIES, LIBRARY, LISTING, MODULE, RECIPE, TOOLCHAIN

from gpuforge.audit import audit
from gpuforge.audit.embedded import Index, KernelsWheels, ListedFile, Recipe, Unusable
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.report.sentences import lines
from gpuforge.cuda.kernels import KernelImage
from gpuforge.expectation import Expectation
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel

HOME = "demo/_gpuforge"


def facts(folder: Path, name: str, document: object) -> WheelFacts:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return audit([wheel(folder, {f"{HOME}/{name}": data})]).graph.wheels[0]


def index(folder: Path, document: object) -> Index | Unusable:
    (found,) = facts(folder, "kernels/k/index.json", document).kernels
    return found.listing


def recipe(folder: Path, document: object) -> Recipe | Unusable:
    (found,) = facts(folder, "sources/m/recipe.json", document).sources
    return found.recipe


def test_an_index(tmp_path):
    file = ListedFile("k.fatbin", "aa", (KernelImage("cubin", Arch(8, 0)),))
    assert index(tmp_path, INDEX) == Index("module", (file,))
    library = ListedFile("libk.so", "aa", (KernelImage("library", CpuLevel()),))
    assert index(tmp_path, LIBRARIES) == Index("library", (library,), "1-0a")


def modules(**change: object) -> dict[str, object]:
    return {**INDEX, "modules": [{**MODULE, **change}]}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"[" * 100_000, "it is not valid JSON"),
        (b"{", "it is not valid JSON"),
        ([], "it is not an object"),
        (b" " * (1 << 20) + b"{}", "it is 1048578 bytes long"),
        ({**INDEX, "schema": 2}, "its schema is not 1"),
        ({**INDEX, "modules": []}, "'modules' is empty"),
        ({**INDEX, "modules": {"file": "x"}}, "'modules' is not a list of objects"),
        ({**INDEX, "modules": ["x", {}]}, "'modules' is not a list of objects"),
        ({**INDEX, "abi": 7}, "'abi' is not text"),
        ({**INDEX, "toolkit": "x"}, "'x' is not a version like 13.0"),
        ({**LIBRARIES, "libraries": [{**LIBRARY, "images": []}]}, "'images' is empty"),
        (modules(file="a/k.fatbin"), "'a/k.fatbin' is not the name of a file beside it"),
        (modules(file=""), "'' is not the name of a file beside it"),
        (modules(sha256=""), "'sha256' is empty"),
        (modules(images=["x"]), "'images' is not a list of objects"),
        (modules(images=[{"kind": "cubin"}]), "'arch' is missing in it"),
        (modules(images=[{"kind": "ptx", "arch": "compute_80"}]), "'isa' is missing in it"),
        (modules(images=[{"kind": "opencl", "arch": ""}]), "'opencl' is not the kind of an image"),
        (modules(images=[{"kind": "cubin", "arch": "gfx90a"}]), "'gfx90a' is not a GPU architecture"),
    ],
)
def test_an_index_that_cannot_be_used(document, problem, tmp_path):
    found = index(tmp_path, document)
    assert isinstance(found, Unusable)
    assert found.problem == problem


def test_a_recipe(tmp_path):
    found = recipe(tmp_path, RECIPE | {"kind": "module"})
    assert isinstance(found, Recipe)
    assert [(each.name, each.runtimes) for each in found.toolchains] == [("host", ("libgomp.so.1",))]
    assert found._replace(toolchains=()) == Recipe(
        files=(ListedFile("a.cpp", "aa"), ListedFile("a.h", "bb")),
        toolchains=(),
        fallbacks=("k",),
        cpu="c",
        abi="1-0a",
        texts=(
            *("m", "module", "1-0a", "k", "c", "a.cpp", "aa", "a.h", "bb"),
            *("host", "gcc", ">=9", "c++", "-O2", ">=", "", "", "", "", "libgomp.so.1", "library", ""),
        ),
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": 2}, "its schema is not 1"),
        ({"sources": []}, "'sources' is empty"),
        ({"sources": "a.cpp"}, "'sources' is not a list of objects"),
        ({"sources": [{"file": "../a.cpp", "sha256": "aa"}]}, "'../a.cpp' leads out of its folder"),
        ({"includes": {}}, "'includes' is not a list of objects"),
        ({"toolchains": []}, "'toolchains' is empty"),
        ({"toolchains": ["host"]}, "'toolchains' is not a list of objects"),
        ({"toolchains": [{**TOOLCHAIN, "runtimes": [7]}]}, "'runtimes' is not a list of texts"),
        ({"toolchains": [{**TOOLCHAIN, "accepts": [[">=", [1e400]]]}]}, "'accepts' is not a list of bounds"),
        ({"fallbacks": [None]}, "'fallbacks' is not a list of texts"),
        ({"kind": "module", "cpu": []}, "'cpu' is not text"),
        ({"abi": 1}, "'abi' is not text"),
    ],
)
def test_a_recipe_that_does_not_fit(change, problem, tmp_path):
    text = json.dumps(RECIPE | change).replace("Infinity", "1e400")
    assert recipe(tmp_path, text.encode()) == Unusable("schema", problem)


def test_a_list_of_kernels_wheels(tmp_path):
    found = facts(tmp_path, "wheels.json", LISTING)
    assert found.kernels_description is None
    assert found.kernels_listing == KernelsWheels(
        "1.0", {"default-kernels": "k1"}, frozenset({"demo-kernels-cu13"})
    )


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({**LISTING, "version": 1}, "'version' is not text"),
        ({**LISTING, "sets": [{"name": "default-kernels", "kind": "module"}]}, "'abi' is missing in it"),
        ([], "it is not an object"),
    ],
)
def test_a_kernels_wheel_that_the_runtime_cannot_read(document, problem, tmp_path):
    own = wheel(tmp_path, {f"{HOME}/wheels.json": json.dumps(LISTING).encode()})
    files = {"demo_kernels_cu13/_gpuforge/wheel.json": json.dumps(document).encode()}
    kernels = wheel(tmp_path, files, name="demo_kernels_cu13-1.0-py3-none-manylinux2014_x86_64.whl")
    (found,) = (f for f in audit([own, kernels]).findings if f.code == "GF711")
    assert lines(found) == (f"its wheel.json cannot be used: {problem}",)


def test_the_images_are_those_of_the_manifests_targets(tmp_path):
    images = [{"kind": "iree-cuda", "arch": "compute_60", "isa": "7.6"}, {"kind": "iree-vulkan", "arch": ""}]
    document = {**INDEX, "modules": [{**MODULE, "file": "k.vmfb", "images": images}]}
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
