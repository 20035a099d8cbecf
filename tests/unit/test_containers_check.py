"""What an image lacks, from what it says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from image_samples import MemoryImages

from gpuforge.containers import catalog
from gpuforge.containers.check import contents, missing, parse
from gpuforge.containers.port import EngineImage
from gpuforge.errors import ActionError

BOOKWORM = """\
machine\tx86_64
libc\tglibc 2.36
python\t/opt/python/cp311-cp311/bin/python\t3.11.2\tCPython\tyes\tyes\tyes
python\t/opt/python/cp313-cp313/bin/python\t3.13.5\tCPython\tyes\tyes\tyes
python\t/opt/python/cp39-cp39/bin/python\t3.13.5\tCPython\tyes\tyes\tyes
g++\t/usr/bin/g++\t12.2.0
g++\t/usr/bin/g++-11\t11.3.0
"""
NO_PYTHON = "a CPython 3.11 or newer with venv and pip, in /opt/python/cpXY-cpXY or on PATH"
IMAGE = catalog.find("bookworm", "x86_64")


def test_the_catalogs_own_image_lacks_nothing() -> None:
    found = parse(BOOKWORM)
    assert missing(found, IMAGE, "build") == []
    assert [python.version for python in found.pythons] == ["3.11.2", "3.13.5"]  # cp39-cp39 is an alias


@pytest.mark.parametrize(
    ("old", "new", "lacks"),
    [
        ("libc\tglibc 2.36", "libc\t", "the GNU C library: wheels for manylinux need it"),
        ("g++\t", "no\t", "a g++"),
        ("\tyes\tyes\tyes", "\tno\tyes\tyes", NO_PYTHON),
        ("\tyes\tyes\tyes", "\tyes\tno\tyes", NO_PYTHON),
        ("CPython", "PyPy", NO_PYTHON),
        ("python\t", "no\t", NO_PYTHON),
    ],
)  # fmt: skip
def test_what_a_users_own_image_lacks(old: str, new: str, lacks: str) -> None:
    assert missing(parse(BOOKWORM.replace(old, new)), None, "build") == [lacks]


def test_python_3_9_alone_is_too_old_and_3_13_is_not() -> None:
    only = "\n".join(line for line in BOOKWORM.splitlines() if "cp31" not in line) + "\n"
    old = only.replace("cp39-cp39", "cp39-cp39").replace("3.13.5", "3.9.2")
    assert len(missing(parse(old), None, "build")) == 1
    assert missing(parse(BOOKWORM), None, "build") == []


def test_an_image_that_is_not_what_the_catalog_says() -> None:
    assert IMAGE is not None
    found = parse(BOOKWORM.replace("cp313", "cp312").replace("3.13.5", "3.12.1").replace("11.3.0", "10.1.0"))
    assert missing(found, replace(IMAGE, glibc="2.28"), "build") == [
        "CPython 3.13 in /opt/python",
        "g++-11",
        "glibc 2.28: it has 2.36",
    ]


def test_a_clean_container_has_no_compiler() -> None:
    test = catalog.find("bookworm-test", "x86_64")
    without = "\n".join(line for line in BOOKWORM.splitlines() if not line.startswith("g++"))
    assert missing(parse(without), test, "test") == []
    assert missing(parse(BOOKWORM), test, "test") == [
        "the absence of compilers, of which a clean container has none: /usr/bin/g++"
    ]


def test_the_toolkit_is_the_one_that_the_catalog_says() -> None:
    cuda = catalog.find("bookworm-cuda11.8", "x86_64")
    assert missing(parse(BOOKWORM), cuda, "build") == ["nvcc 11.8"]
    assert missing(parse(f"{BOOKWORM}nvcc\t/usr/local/cuda/bin/nvcc\t11.8.89\n"), cuda, "build") == []
    other = parse(f"{BOOKWORM}nvcc\t/usr/local/cuda/bin/nvcc\t12.4.131\n")
    assert missing(other, cuda, "build") == ["nvcc 11.8: it has 12.4.131"]


def test_an_image_without_a_shell_says_so() -> None:
    images = MemoryImages(
        {"static": EngineImage("sha256:0", 1)}, says=["exec: /bin/sh: no such file"], status=127
    )
    with pytest.raises(ActionError, match=r"static cannot run a shell: exec: /bin/sh: no such file"):
        contents(images, "static")
