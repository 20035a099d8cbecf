"""What an image lacks, from what it answers to the probe."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from image_samples import BOOKWORM, MemoryImages, gxx, nvcc, python

from gpuforge.containers import catalog
from gpuforge.containers.images import EngineImage
from gpuforge.containers.obtain import contents, missing
from gpuforge.errors import ActionError, MissingError
from gpuforge.toolchains.inventory import Inventory

NO_PYTHON = "a CPython 3.11 or newer with venv and pip, in /opt/python/cpXY-cpXY or on PATH"
IMAGE = catalog.find("bookworm", "x86_64")


def found(facts: Mapping[str, Any] = BOOKWORM, **more: Any) -> Inventory:
    return Inventory.parse("bookworm", json.dumps({**facts, **more}))


def test_the_catalogs_own_image_lacks_nothing():
    assert missing(found(), IMAGE, "build") == []
    versions = [interpreter.version for interpreter in found().interpreters]
    assert versions == ["3.11.2", "3.13.5"]  # cp39-cp39 is an alias


def each_python(**more: Any) -> dict[str, Any]:
    return {"pythons": [[path, facts | more] for path, facts in deepcopy(BOOKWORM["pythons"])]}


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ({"glibc": ""}, "the GNU C library: wheels for manylinux need it"),
        ({"compilers": []}, "a g++"),
        (each_python(venv=False), NO_PYTHON),
        (each_python(pip=False), NO_PYTHON),
        (each_python(implementation="PyPy"), NO_PYTHON),
        ({"pythons": []}, NO_PYTHON),
    ],
)
def test_what_a_users_own_image_lacks(change, lacks):
    assert missing(found(**change), None, "build") == [lacks]


def test_python_3_9_alone_is_too_old():
    old = found(pythons=[python("cp39-cp39", "3.9.2")])
    assert missing(old, None, "build") == [NO_PYTHON]


def test_an_image_that_differs_from_its_description():
    assert IMAGE is not None
    other = found(
        pythons=[python("cp311-cp311", "3.11.2"), python("cp312-cp312", "3.12.1")],
        compilers=[gxx("/usr/bin/g++", "12.2.0"), gxx("/usr/bin/g++-10", "10.1.0")],
    )
    assert missing(other, IMAGE._replace(glibc="2.28"), "build") == [
        "CPython 3.13 in /opt/python",
        "g++-11",
        "glibc 2.28: it has 2.36",
    ]


def test_a_clean_container_has_no_compiler():
    test = catalog.find("bookworm-test", "x86_64")
    assert missing(found(compilers=[]), test, "test") == []
    assert missing(found(), test, "test") == ["a system without compilers: it has /usr/bin/g++"]


@pytest.mark.parametrize(
    ("version", "lacks"),
    [("", ["nvcc 11.8"]), ("11.8.89", []), ("12.4.131", ["nvcc 11.8: it has 12.4.131"])],
)
def test_the_toolkit_is_the_one_of_the_catalog(version, lacks):
    compilers = [*BOOKWORM["compilers"], *([nvcc(version)] if version else [])]
    cuda = catalog.find("bookworm-cuda11.8", "x86_64")
    assert missing(found(compilers=compilers), cuda, "build") == lacks


Probe = Callable[[MemoryImages], Inventory]


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    return lambda images: contents(images, EngineImage("sha256:0", 1), "static", tmp_path)


def test_an_image_without_a_shell_is_one_clear_error(probe):
    images = MemoryImages({"static": EngineImage("sha256:0", 1)}, ["exec: /bin/sh: no such file"], status=127)
    with pytest.raises(ActionError, match=r"what image static holds is unknown: exec: /bin/sh: no such"):
        probe(images)


def test_an_image_of_another_machine_type_without_an_emulation_names_the_way_out(probe):
    says = "[FATAL tini (7)] exec /bin/sh failed: Exec format error"
    images = MemoryImages({"static": EngineImage("sha256:0", 1)}, says=[says], status=127)
    with pytest.raises(MissingError, match="the engine has no emulation") as caught:
        probe(images)
    assert "qemu-user-static" in caught.value.diagnostics[0].hint


def test_an_answer_that_cannot_be_read_is_one_clear_error(probe):
    images = MemoryImages({"static": EngineImage("sha256:0", 1)}, ["Welcome!"])
    with pytest.raises(ActionError, match="the answer of image static on what it holds cannot be read"):
        probe(images)


def test_the_answer_is_kept(probe):
    images = MemoryImages({"static": EngineImage("sha256:0", 1)}, [json.dumps(BOOKWORM)])
    assert probe(images) == probe(MemoryImages())
