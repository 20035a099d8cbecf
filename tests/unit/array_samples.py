"""Libraries that stand in for torch and CuPy on the driver that stands in: arrays on devices, and current streams."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
import pytest

PRIMARY = 0x700000000100  # the stand-in driver's context of device 0


class Gpu:
    """Memory and streams of the stub, used by another library: its work is queued, and done when it waits."""

    def __init__(self, stub: str) -> None:
        self.driver = ctypes.CDLL(stub)
        self.driver.stub_fill.argtypes = (
            ctypes.c_size_t,
            ctypes.c_uint64,
            ctypes.c_void_p,
            ctypes.c_uint64,
            ctypes.c_float,
        )
        self.driver.stub_copy.argtypes = (
            ctypes.c_size_t,
            ctypes.c_uint64,
            *(ctypes.c_void_p,) * 2,
            ctypes.c_uint64,
        )
        self.driver.stub_wait.argtypes = (ctypes.c_size_t, ctypes.c_uint64)
        self.driver.cuCtxPushCurrent_v2.argtypes = (ctypes.c_void_p,)
        for device in range(2):
            self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), device)

    @contextmanager
    def current(self, context: int) -> Iterator[None]:
        self.driver.cuCtxPushCurrent_v2(context)
        try:
            yield
        finally:
            self.driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def allocate(self, context: int, size: int, *, managed: bool = False) -> int:
        address = ctypes.c_uint64()
        with self.current(context):
            if managed:
                assert not self.driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(size), 1)
            else:
                assert not self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        return address.value


class Array:
    """Three numbers of a library on a device; what makes and reads them is queued on the library's current stream."""

    shape, itemsize = (3,), 4

    def __init__(
        self, library: Library, device: int, value: float, *, dtype: str = "f4", **options: Any
    ) -> None:
        self._library = library
        self._device = device
        self._context = PRIMARY + device
        self._address = library.gpu.allocate(self._context, 12, **options)
        self._dtype = dtype
        library.gpu.driver.stub_fill(self._context, library.stream, self._address, 3, value)

    def tolist(self) -> list[float]:
        """The numbers as the library sees them after the work on its current stream."""
        gpu, stream = self._library.gpu, self._library.stream
        copy = gpu.allocate(self._context, 12)
        gpu.driver.stub_copy(self._context, stream, copy, self._address, 3)
        assert gpu.driver.stub_wait(self._context, stream) == 0
        return list((ctypes.c_float * 3).from_address(copy))


class Library(threading.local):
    """One of them: `stream` is the current one of a thread."""

    stream = 0

    def __init__(self, gpu: Gpu, kind: type[Array]) -> None:
        self.gpu = gpu
        self.kind = kind

    def array(self, value: float, device: int = 0, **options: Any) -> Any:
        return self.kind(self, device, value, **options)

    @contextmanager
    def using(self, stream: int) -> Iterator[None]:
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before


class Tensor(Array):
    __module__ = "torch"

    def get_device(self) -> int:
        return self._device

    def data_ptr(self) -> int:
        return self._address

    def is_contiguous(self) -> bool:
        return True

    def is_neg(self) -> bool:
        return False

    @property
    def dtype(self) -> Any:
        return _DTYPES[self._dtype]


class _Dtype(str):
    is_complex = False

    def __str__(self) -> str:
        return {"f4": "torch.float32", "f8": "torch.float64"}[self[:]]


_DTYPES = {name: _Dtype(name) for name in ("f4", "f8")}  # one object each, as in torch


class ndarray(Array):  # noqa: N801  its name in CuPy
    __module__ = "cupy"
    strides, _c_contiguous = (4,), True

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self._address, device_id=self._device)

    @property
    def dtype(self) -> Any:
        return numpy.dtype(self._dtype)


class Numbered(Array):
    """An array of another library, which only has the interface, with its stream in it."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (3,), "typestr": f"<{self._dtype}", "data": (self._address, False), "version": 3,
                "stream": self._library.stream or None}  # fmt: skip


class Capsule(Array):
    """An array that has only DLPack; its library makes the consumer's stream wait."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device

    def __dlpack__(self, *, stream: int) -> object:
        fields = [("data", ctypes.c_void_p), ("type", ctypes.c_int), ("id", ctypes.c_int), ("ndim", ctypes.c_int),
                  ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                  ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]  # fmt: skip
        kind = type("Tensor", (ctypes.Structure,), {"_fields_": fields})
        self._shape = (ctypes.c_int64 * 1)(3)
        self._tensor = kind(  # type: ignore[call-arg]
            data=self._address, type=2, id=self._device, ndim=1, code=2, bits=32, lanes=1,
            shape=ctypes.addressof(self._shape),
        )  # fmt: skip
        driver = self._library.gpu.driver
        with self._library.gpu.current(self._context):
            event = ctypes.c_void_p()
            driver.cuEventCreate(ctypes.byref(event), 2)
            driver.cuEventRecord(event, ctypes.c_void_p(self._library.stream))
            driver.cuStreamWaitEvent(ctypes.c_void_p(stream), event, 0)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


KINDS = {"torch": Tensor, "cupy": ndarray, "interface": Numbered, "dlpack": Capsule}


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_DEVICES", "2")


@pytest.fixture
def libraries(stub: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Library]:
    """The libraries on one driver; torch and cupy can be imported."""
    gpu = Gpu(stub)
    made = {name: Library(gpu, kind) for name, kind in KINDS.items()}
    torch: Any = ModuleType("torch")
    torch.Tensor = Tensor
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda _: made["torch"].stream)
    cupy: Any = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(get_current_stream=lambda _: SimpleNamespace(ptr=made["cupy"].stream))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return made
