"""A kernel set that is missing, damaged or from another time says so, and where."""

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gpuforge import runtime
from gpuforge.runtime import Image, KernelLibrary, KernelSet, KernelUnavailable, UnknownKernel
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.values import Index, Refused
from gpuforge.runtime.values import read_index as read

FATBIN = b"\x50\xed\x55\xba rest"
MODULE: dict[str, Any] = {
    "name": "saxpy",
    "source": "kernels/saxpy.cu",
    "digest": "00",
    "file": "saxpy.fatbin",
    "sha256": hashlib.sha256(FATBIN).hexdigest(),
    "images": [
        {"kind": "cubin", "arch": "sm_90a"},
        {"kind": "ptx", "arch": "compute_120", "isa": "9.0"},
    ],
    "kernels": [
        {"symbol": "_Z5saxpyPfy", "name": "saxpy",
         "parameters": [{"type": "float *", "size": 8}, {"type": "unsigned long long", "size": 8}]},
    ],
}  # fmt: skip
INDEX: dict[str, Any] = {
    "schema": 1,
    "name": "default-kernels",
    "kind": "module",
    "toolchain": {"family": "nvcc", "version": "13.0.88"},
    "toolkit": "13.0",
    "modules": [MODULE],
}


def write(folder: Path, index: Any) -> Path:
    (folder / "saxpy.fatbin").write_bytes(FATBIN)
    path = folder / "index.json"
    path.write_text(index if isinstance(index, str) else json.dumps(index))
    return path


def test_what_an_index_says(tmp_path):
    index = read_index(write(tmp_path, INDEX))
    assert (index.name, index.compiler.label, index.toolkit) == ("default-kernels", "nvcc 13.0.88", "13.0")
    module = index.modules["saxpy"][0]
    assert module.read() == FATBIN
    assert module.images == (
        Image("cubin", Arch(9, 0, "a"), (13, 0)),
        Image("ptx", Arch(12, 0), (13, 0), (9, 0)),
    )


def read_index(path: Path) -> Index:
    return read(str(path))


def without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in table.items() if k != key}


def with_image(**image: str) -> dict[str, Any]:
    return {**INDEX, "modules": [{**MODULE, "images": [image]}]}


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("", "is damaged: it is not valid JSON"),
        ("[" * 100_000, "is damaged: it is not valid JSON"),
        ('{"schema": NaN}', "is damaged: it is not valid JSON"),
        (json.dumps({**INDEX, "name": "a\0b"}), "is damaged: it is not valid JSON"),
        (json.dumps({**INDEX, "name": "\ud800"}), "is damaged: it is not valid JSON"),
        (" " * (4 << 20) + "{}", "is damaged: it has more than 4 MiB"),
        ([], "is damaged: it is not an object"),
        ({**INDEX, "schema": True}, "is damaged: 'schema' is not a whole number"),
        ({**INDEX, "name": ["a"]}, "is damaged: 'name' is not text"),
        ({**INDEX, "modules": [1]}, "is damaged: 'modules' is not a list of objects"),
        (
            with_image(kind="cubin", arch="sm_" + "9" * 50),
            f"is damaged: 'sm_{'9' * 50}' is not a GPU architecture",
        ),
        (without(INDEX, "toolkit"), "is damaged: 'toolkit' is missing in it"),
        ({**INDEX, "modules": [without(MODULE, "sha256")]}, "is damaged: 'sha256' is missing in it"),
        (with_image(kind="ptx", arch="compute_90"), "is damaged: 'isa' is missing in it"),
        (with_image(kind="cuda", arch="x"), "is damaged: 'cuda' is not the kind of an image"),
        ({**INDEX, "modules": [{**MODULE, "sha256": ""}]}, "is damaged: 'sha256' is empty"),
    ],
)
def test_a_damaged_index(tmp_path, index, message):
    path = write(tmp_path, index)
    with pytest.raises(Refused) as error:
        read_index(path)
    assert str(error.value) == f"{path}: {message}"


def test_the_index_of_a_set_is_not_that_of_a_library(tmp_path):
    folder = tmp_path / "kernels" / "default-kernels"
    folder.mkdir(parents=True)
    path = write(folder, INDEX)
    with pytest.raises(KernelUnavailable) as error:
        KernelLibrary("default-kernels", home=str(tmp_path), env={}).load()
    assert (
        str(error.value) == f"{path}: lists a kernel set, which KernelSet loads (in C: gpuforge_load_kernel)"
    )


def test_a_kernel_set_that_the_wheel_has_not():
    kernels = KernelSet.shipped("no-such-kernels")
    assert kernels.explain() == (
        "kernel set no-such-kernels: cannot be used\n  this wheel has no kernel set 'no-such-kernels'"
    )
    with pytest.raises(
        UnknownKernel, match=r"^this wheel has no kernel set 'no-such-kernels'; it has: none$"
    ):
        kernels.function("saxpy", module="saxpy")


def test_the_runtime_is_written_for_python_3_9():
    for path in Path(runtime.__file__).parent.rglob("*.py"):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))
