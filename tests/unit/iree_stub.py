"""A stand-in for `iree.runtime`: the calls that gpuforge makes of it, with the CPU's memory and functions in Python."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime import KernelSet
from gpuforge.runtime.backends.iree import devices
from gpuforge.runtime.backends.iree import kernel as iree_kernel

DTYPES = {"FLOAT_32": "f4", "INT_32": "i4", "INT_64": "i8", "BFLOAT_16": "u2"}


class Buffer:
    def __init__(self, data: bytearray) -> None:
        self.data = data

    def map(self) -> Any:
        return SimpleNamespace(asarray=lambda shape, dtype: np.frombuffer(self.data, dtype).reshape(shape))


class View:
    def __init__(self, buffer: Buffer, shape: list[int], element: str) -> None:
        self.array = np.frombuffer(buffer.data, DTYPES[element], count=int(np.prod(shape))).reshape(shape)


class Variants(list[Any]):
    def __init__(self, capacity: int) -> None:
        super().__init__()

    def push_ref(self, value: View) -> None:
        self.append(value.array)

    def push_int(self, value: int) -> None:
        assert -(1 << 63) <= value < 1 << 63
        self.append(value)

    push_float = list.append


class Allocator:
    def allocate_buffer(self, memory_type: int, usage: int, size: int) -> Buffer:
        if size > 1 << 40:
            raise RuntimeError(
                "could not allocate: c/x/allocator.c:57: RESOURCE_EXHAUSTED; libc allocator failed"
            )
        return Buffer(bytearray(size))

    def allocate_host_staging_buffer_copy(self, device: Device, data: memoryview) -> Buffer:
        return Buffer(bytearray(data))


class Device:
    allocator = Allocator()

    def create_semaphore(self, value: int) -> None:
        return None

    def queue_copy(
        self, source: Buffer, target: Buffer, wait_semaphores: Any, signal_semaphores: Any
    ) -> None:
        np.frombuffer(target.data, "u1")[:] = np.frombuffer(source.data, "u1")


class Module:
    """A module is JSON: for each function its declaration, and the name of what it does in `FUNCTIONS`."""

    def __init__(self, data: bytes) -> None:
        self._functions = json.loads(data)
        self.function_names = [*self._functions, "__init"]

    @classmethod
    def copy_buffer(cls, instance: Any, data: bytes) -> Module:
        try:
            return cls(data)
        except ValueError:
            raise ValueError(
                "Error: c/x/archive.c:122: INVALID_ARGUMENT; FlatBuffer length prefix out of bounds"
            ) from None

    def lookup_function(self, name: str) -> Any:
        found = self._functions.get(name)
        return found and SimpleNamespace(reflection={"iree.abi.declaration": found}, name=name)


def _saxpy(a: float, x: Any, y: Any) -> None:
    y += np.float32(a) * x


def _failing(*_: Any) -> None:
    raise RuntimeError("Error invoking function: c/x/invocation.c:9: ABORTED; the device is gone\nand more")


FUNCTIONS: dict[str, Callable[..., None]] = {"saxpy": _saxpy, "failing": _failing}
SAXPY = (
    "sync func @saxpy(%input0: f32, %input1: tensor<?xf32>, "
    "%input2: tensor<?xf32> {iree.abi.output = 0 : index}) -> (%output0: tensor<?xf32>)"
)


class Context:
    def __init__(self, instance: Any, modules: list[Any]) -> None:
        pass

    def invoke(self, function: Any, inputs: Variants, outputs: Variants) -> None:
        FUNCTIONS[function.name](*inputs)


def module(**drivers: Any) -> Any:
    """Return a stand-in whose drivers have devices of these names; one that is an Exception does not start."""
    opened: list[str] = []

    def get_driver(name: str) -> Any:
        opened.append(name)
        found = drivers[name.replace("-", "_")]
        if isinstance(found, Exception):
            raise found
        infos = [{"device_id": number, "name": device} for number, device in enumerate(found)]
        return SimpleNamespace(query_available_devices=lambda: infos, create_device=lambda number: Device())

    return SimpleNamespace(
        opened=opened,
        get_driver=get_driver,
        VmInstance=object,
        VmModule=Module,
        VmContext=Context,
        VmVariantList=Variants,
        create_hal_module=lambda instance, device: None,
        HalBufferView=View,
        HalElementType=SimpleNamespace(**{name: name for name in DTYPES}, UINT_8="u1", map_to_dtype=np.dtype),
        HalFence=SimpleNamespace(create_at=lambda semaphore, value: SimpleNamespace(wait=lambda: None)),
        MemoryType=SimpleNamespace(DEVICE_LOCAL=1, HOST_LOCAL=2, DEVICE_VISIBLE=4),
        BufferUsage=SimpleNamespace(DEFAULT=1, TRANSFER_TARGET=2, MAPPING_SCOPED=4),
    )


def install(monkeypatch: pytest.MonkeyPatch, **drivers: Any) -> Any:
    """Put a stand-in in place of `iree.runtime`, as a new process sees it, and return it."""
    for owner, name, value in (
        (devices, "_devices", {}),
        (devices, "_opened_by", [0]),
        (iree_kernel, "_devices", {}),
    ):
        monkeypatch.setattr(owner, name, value)
    stub, package = module(**drivers), ModuleType("iree")
    package.runtime = stub  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "iree", package)
    monkeypatch.setitem(sys.modules, "iree.runtime", stub)
    return stub


def kernel_set(
    folder: Path, images: Any, driver: str = "libnothing.so", functions: Any = None, **env: str
) -> KernelSet:
    """Lay out a set with a module for each image (kind, architecture, ISA)."""
    home = folder / "demo" / "_gpuforge" / "kernels" / "ops"
    home.mkdir(parents=True, exist_ok=True)
    data = json.dumps(functions or {"saxpy": SAXPY}).encode()
    modules = []
    for kind, arch, isa in images:
        file = home / f"saxpy-{kind}.vmfb"
        file.write_bytes(data)
        modules.append(
            {
                "name": "saxpy",
                "source": "kernels/saxpy.mlir",
                "file": file.name,
                "sha256": hashlib.sha256(data).hexdigest(),
                "images": [{"kind": kind, "arch": arch, **({"isa": isa} if isa else {})}],
                "kernels": [],
            }
        )
    index = {
        "schema": 1,
        "name": "ops",
        "toolchain": {"family": "iree", "version": "3.13.0"},
        "toolkit": "",
        "install": "pip install iree-base-runtime",
        "modules": modules,
    }
    (home / "index.json").write_text(json.dumps(index))
    return KernelSet(home, package="demo", env=env, driver=driver)
