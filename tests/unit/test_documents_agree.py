"""The audit and the runtime read the documents in wheels with readers of their own: both take and refuse the same."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from document_samples import INDEX, LIBRARIES, LISTING, RECIPE, TOOLCHAIN
from draws import draws
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.audit.embedded import Unusable
from gpuforge.audit.read import embedded
from gpuforge.runtime import index, layout, recipe, wheels
from gpuforge.runtime.values import Reason
from gpuforge.wheel.archive import Archive

MODULES: dict[str, Any] = {
    **RECIPE,
    "kind": "module",
    "toolchains": [{**TOOLCHAIN, "family": "nvrtc", "makes": "module", "sources": ["a.cpp"]}],
}
IREE: dict[str, Any] = deepcopy(INDEX)
IREE["toolkit"] = ""
IREE["modules"][0]["images"] = [
    {"kind": "iree-cuda", "arch": "compute_60", "isa": "7.6"},
    {"kind": "iree-vulkan", "arch": ""},
    {"kind": "iree-cpu", "arch": "x86-64-v3"},
]
PTX: dict[str, Any] = deepcopy(INDEX)
PTX["modules"][0]["images"].append({"kind": "ptx", "arch": "compute_90", "isa": "8.7"})


def index_read(folder: Path) -> bool:
    path = layout.index(str(folder))
    found = index.read_libraries(path)
    if found is None or not found.is_library:
        return bool(index.read_index(path).modules)
    if any(isinstance(part, Reason) for part in found[1:]):
        return False
    # of libraries the runtime reads any schema, and measures the size of the files alone
    data = json.loads(Path(path).read_bytes())
    digests = [each.get("sha256") for each in data["libraries"]]
    of_audit = all(
        isinstance(text, str) and text and min(text) >= " " and "\x7f" not in text for text in digests
    )
    return bool(digests) and of_audit and type(data.get("schema")) is int and data["schema"] == 1


def recipe_read(folder: Path) -> bool:
    recipe.read_demands(str(folder))
    recipe.read(str(folder))
    found = recipe.read_to_compile(str(folder))
    return bool(found.sources and found.toolchains)


def listing_read(folder: Path) -> bool:
    return wheels.listing(str(folder)) is not None


def wheel_read(folder: Path) -> bool:
    home = folder.parents[1] / HOME
    home.mkdir(parents=True)
    (home / layout.LISTING).write_text(json.dumps(LISTING))
    (found,) = wheels.installed(str(home), "demo", [])
    return found.problem is None or found.problem.kind == "other-version"


HOME = "demo/_gpuforge"
READERS: dict[str, tuple[str, Callable[[Path], bool], Callable[[Archive], object]]] = {
    "index": (
        f"{HOME}/kernels/k/index.json",
        index_read,
        lambda archive: next(embedded.kernel_sets(archive)).listing,
    ),
    "recipe": (
        f"{HOME}/sources/m/recipe.json",
        recipe_read,
        lambda archive: next(embedded.source_sets(archive)).recipe,
    ),
    "listing": (
        f"{HOME}/wheels.json",
        listing_read,
        embedded.kernels_listing,
    ),
    "wheel": (
        "demo_kernels_cu13/_gpuforge/wheel.json",
        wheel_read,
        embedded.kernels_description,
    ),
}
DOCUMENTS = {
    "a set of modules": ("index", PTX),
    "modules of IREE": ("index", IREE),
    "libraries": ("index", LIBRARIES),
    "a recipe of a library": ("recipe", RECIPE),
    "a recipe of modules": ("recipe", MODULES),
    "a list of kernels wheels": ("listing", LISTING),
    "a kernels wheel": (
        "wheel",
        {key: LISTING[key] for key in ("schema", "distribution", "version", "sets")},
    ),
}
NUMBERS = [0, 1, -1, 1.5, 10**15, 10**16, float("inf"), None, True]
TEXTS = ["", "x", ".", "..", "a/b", "/a", "a\nb", "a\0b", "\ud800", "8.7", "13", "12345.0"]
WORDS = [
    "ptx",
    "cubin",
    "lto-ir",
    "library",
    "opencl",
    "iree-cpu",
    "module",
    "sm_90a",
    "compute_80",
    "sm_" + "9" * 20,
]
LISTS = [[], [[]], [{}], {}, {"": ""}, ["x"], [1], [["==", [1]]], [["==", ["x"]]], [[">=", 1]], [["~=", [1]]]]
ODD = st.sampled_from([*NUMBERS, *TEXTS, *WORDS, *LISTS])


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(
    document: dict[str, Any], path: tuple[str | int, ...], value: object, *, absent: bool
) -> dict[str, Any]:
    """Return a document with another value in one place, or none."""
    document = deepcopy(document)
    holder: Any = document
    for key in path[:-1]:
        holder = holder[key]
    if absent:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document


def taken(kind: str, text: bytes) -> tuple[bool, bool]:
    """Say whether the audit takes a document, and whether the runtime does."""
    member, by_runtime, by_audit = READERS[kind]
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(member, text)
    with TemporaryDirectory() as folder:
        place = Path(folder, member)
        place.parent.mkdir(parents=True)
        place.write_bytes(text)
        try:
            loaded = by_runtime(place.parent)
        except index.Refused:
            loaded = False
        path = Path(folder, "demo-1.0-py3-none-any.whl")
        path.write_bytes(packed.getvalue())
        with Archive(path) as opened:
            return not isinstance(by_audit(opened), Unusable), loaded


@pytest.mark.parametrize("name", DOCUMENTS)
def test_both_take_what_gpuforge_writes(name: str) -> None:
    kind, document = DOCUMENTS[name]
    assert taken(kind, json.dumps(document).encode()) == (True, True)


@pytest.mark.parametrize("name", DOCUMENTS)
@given(data=st.data())
@draws(200)
def test_both_refuse_the_same(name: str, data: st.DataObject) -> None:
    kind, document = DOCUMENTS[name]
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(document))))
        document = changed(document, path, data.draw(ODD), absent=data.draw(st.booleans()))
        if not document:
            break
    text = json.dumps(document).replace("Infinity", "1e400").encode()
    audited, loaded = taken(kind, text)
    assert audited == loaded, text


@given(st.sampled_from(sorted(DOCUMENTS)), st.integers(0, 2000), st.binary(max_size=3), st.integers(0, 30))
@draws(200)
def test_both_refuse_what_is_damaged(name: str, at: int, put: bytes, cut: int) -> None:
    kind, document = DOCUMENTS[name]
    text = json.dumps(document).encode()
    at %= len(text)
    audited, loaded = taken(kind, text[:at] + put + text[at + cut :])
    assert audited == loaded
