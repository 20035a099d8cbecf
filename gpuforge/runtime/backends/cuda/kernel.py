"""A kernel for CUDA's GPUs: it runs where its arrays are, in the order of the library that made them.

Launches that repeat are replayed as CUDA graphs of one kernel, which take the driver half the time of a launch.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import byref, c_char, c_int, c_uint, c_uint64, c_void_p
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Optional, Union

from ...driver import Driver, DriverModule
from ...process import DriverError, shared
from ...signature import (
    DLPACK_KINDS,
    FREED,
    DLTensor,
    Entry,
    Given,
    Owned,
    Parameter,
    Uploads,
    check,
    context_handle,
    given_array,
    given_value,
    is_scalar,
    launch_size,
    limits,
    misfit,
    outside,
    refusal,
    refuse_gaps,
    size_of,
    source_of,
    spelled,
    stream_handle,
    target_of,
    tensor_of,
    three,
    type_name,
    whole,
)

LEGACY = 1  # CU_STREAM_LEGACY: the default stream by its other name
DEFAULT = (0, LEGACY)
PER_THREAD = 2  # CU_STREAM_PER_THREAD: the default stream of the calling thread
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class Modules:
    """Loaded modules by their digest, with a count of their holders. Safe for threads.

    A module stays loaded until `release`, and after it as long as it has a holder. `unload` is called outside all
    locks.
    """

    def __init__(self, unload: Callable[[Any], None]) -> None:
        self._unload = unload
        self._lock = threading.RLock()  # the garbage collector may release a module inside of it
        self._slots: dict[str, _Slot] = {}

    def hold(self, digest: str, load: Callable[[], Any]) -> LoadedModule:
        with self._lock:
            slot = self._slots.setdefault(digest, _Slot())
            slot.holders += 1
        try:
            with slot.loading:
                if slot.module is None:
                    slot.module = load()
                return LoadedModule(slot.module, lambda: self._let_go(digest, slot))
        except BaseException:
            self._let_go(digest, slot)
            raise

    def release(self) -> None:
        with self._lock:
            slots, self._slots = self._slots, {}
            for slot in slots.values():
                slot.holders += 1
        for digest, slot in slots.items():
            self._let_go(digest, slot)

    def __len__(self) -> int:
        return len(self._slots)

    def _let_go(self, digest: str, slot: _Slot) -> None:
        with self._lock:
            slot.holders -= 1
            kept = self._slots.get(digest) is slot
            if kept and slot.module is None and not slot.holders:  # its load failed
                del self._slots[digest]
            unused = None if kept or slot.holders else slot.module
        if unused is not None:
            self._unload(unused)


class LoadedModule:
    """A module that stays loaded until `release`, or until this object is gone."""

    def __init__(self, module: Any, release: Callable[[], None]) -> None:
        self.module = module
        self._lock = threading.Lock()
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process, modules it needs may be gone
            self.release()


class _Slot:
    def __init__(self) -> None:
        self.loading = threading.Lock()
        self.module: Any = None
        self.holders = 0


class Function(NamedTuple):
    """A CUfunction, and its module, which stays loaded as long as this object exists."""

    handle: int
    loaded: LoadedModule


class Context:
    """A context and the modules loaded for it, which are never used in another. All methods raise DriverError."""

    def __init__(self, driver: Driver, handle: int, ordinal: int, *, primary: bool = False) -> None:
        self.driver = driver
        self.primary = primary
        self.handle = handle
        self.ordinal = ordinal
        self.place: Place = ordinal if primary else self
        self._modules = Modules(self._unload)
        self._events: list[c_void_p] = []
        self.release = self._modules.release

    def __str__(self) -> str:
        device = f"device {self.ordinal}"
        return device if self.primary else f"context {self.handle:#x} of {device}"

    def function(self, name: str, digest: str, read: Callable[[], bytes]) -> Function:
        loaded = self._modules.hold(digest, lambda: self._load(read))
        with self.current(), self.allowed_in_captures():
            return Function(self.driver.function(loaded.module, name), loaded)

    def order(self, first: int, then: int, of: Context | None = None) -> None:
        """Make stream `then` wait for the work that is queued so far on stream `first`, of another context with
        `of`.

        Nothing is done if only one of them is being captured into a graph, whose work is queued later.
        """
        source = of or self
        if source is self and (first == then or (first in DEFAULT and then in DEFAULT)):
            return
        with self.current():
            captured = self.capturing(then)
        with source.current():
            if source.capturing(first) != captured:
                return
            event = source.event()
            self.driver.call("cuEventRecord", event, first)
        with self.current():
            self.driver.call("cuStreamWaitEvent", then, event, 0)
        source.keep(event)

    def keep(self, event: c_void_p) -> None:
        """Use an event again for another purpose; what waits for it already is not changed by that."""
        self._events.append(event)

    def event(self) -> c_void_p:
        try:
            return self._events.pop()
        except IndexError:
            event = c_void_p()
        with self.allowed_in_captures():
            self.driver.call("cuEventCreate", byref(event), _NO_TIMING)
        return event

    def capturing(self, stream: int) -> bool:
        state = c_int()
        ask = self.driver.c.cuStreamIsCapturing
        # an error: the default stream cannot be used while another one is captured
        return bool(ask) and not ask(stream, byref(state)) and state.value != 0

    @contextlib.contextmanager
    def allowed_in_captures(self) -> Iterator[None]:
        """Let this thread load and allocate while a stream is captured into a graph."""
        exchange, mode = self.driver.c.cuThreadExchangeStreamCaptureMode, c_int(_RELAXED)
        if exchange:
            exchange(byref(mode))
        try:
            yield
        finally:
            if exchange:
                exchange(byref(mode))

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        self.driver.call("cuCtxPushCurrent_v2", self.handle)
        try:
            yield
        finally:
            self.driver.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def _load(self, read: Callable[[], bytes]) -> DriverModule:
        with self.current(), self.allowed_in_captures():
            return self.driver.load(read())

    def _unload(self, module: DriverModule) -> None:
        if self.driver.pid != os.getpid():
            return  # a forked child: the driver belongs to the parent
        # the context may be gone, with everything in it
        with contextlib.suppress(DriverError), self.current():
            self.driver.unload(module)


Place = Union[int, Context]  # where a kernel runs: a device, with its primary context, or another context
_lock = threading.Lock()
_contexts: dict[tuple[int, int, int], Context] = {}


def primary_context(driver: Driver, ordinal: int) -> Context:
    """Return the primary context of a device, retained for the life of the process."""
    key = id(driver), -1, ordinal
    found = _contexts.get(key)
    if found is None:
        meeting = shared()
        with meeting.lock:
            handle = meeting.contexts.get((driver.files, ordinal))
            if handle is None:
                retained = c_void_p()
                driver.call("cuDevicePrimaryCtxRetain", byref(retained), driver.device(ordinal))
                handle = meeting.contexts[driver.files, ordinal] = retained.value or 0
        with _lock:
            found = _contexts.setdefault(key, Context(driver, handle, ordinal, primary=True))
    return found


def given_context(driver: Driver, context: Any) -> Context:
    handle = context_handle(context, driver.current_context)
    if not handle:
        raise ValueError("no CUDA context is current in this thread")
    key = id(driver), handle, driver.context_id(handle)
    found = _contexts.get(key)
    if found is None:
        found = Context(driver, handle, 0)
        device, active = c_int(), c_int()
        with found.current():
            driver.call("cuCtxGetDevice", byref(device))
        numbers = range(len(driver.devices))
        found.ordinal = next((n for n in numbers if driver.device(n) == device.value), 0)
        driver.call("cuDevicePrimaryCtxGetState", device.value, byref(c_uint()), byref(active))
        if active.value:  # nothing is made here
            primary = primary_context(driver, found.ordinal)
            if primary.handle == handle:
                return primary
        with _lock:
            found = _contexts.setdefault(key, found)
    return found


def current_place(driver: Driver) -> Place:
    handle = driver.current_context()
    if not handle:
        return 0
    for ordinal in range(len(driver.devices)):
        known = _contexts.get((id(driver), -1, ordinal))
        if known is not None and known.handle == handle:
            return ordinal
    return given_context(driver, handle).place


def release(driver: Driver, device: int | None, context: Any) -> None:
    """Release the modules in a CUcontext, which may be destroyed then, or in a device's primary one, None: in all."""
    with _lock:
        found = [each for each in _contexts.values() if each.driver is driver and each.primary]
        if context is not None:
            handle = context_handle(context, driver.current_context)
            given = _contexts.pop((id(driver), handle, driver.context_id(handle)), None) if handle else None
            found = [given] if given else [each for each in found if each.handle == handle]
        elif device is not None:
            found = [each for each in found if each.ordinal == device]
    for each in found:
        each.release()


_changed = [object()]  # another one whenever a memory was freed, or has an event to wait for


class Memory(Owned):
    """Device memory of `size` bytes; use it in a `with` statement, which frees it.

    Launches and copies of it follow each other in the order of their calls, whatever their streams are. Other libraries
    can use it in place, as an array of bytes: it has a `__cuda_array_interface__`.
    """

    __slots__ = ("_context", "_driver", "address", "on_default", "pending", "place", "size")

    def __init__(self, context: Context, size: int) -> None:
        size = size_of("the memory's size", size)
        address = c_uint64()
        self._context = context
        self._driver = context.driver
        self.place = context.place
        with context.current(), context.allowed_in_captures():
            self._driver.call("cuMemAlloc_v2", ctypes.byref(address), max(size, 1))
        self.address = address.value
        self.size = size
        self.on_default = False  # whether a launch with it was on the default stream of its context
        # an event after the last launch on each other stream, and how often it was recorded
        self.pending: dict[tuple[Context, int], _Recorded] = {}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._context_waits()
        return {
            "shape": (self.size,), "typestr": "|u1", "data": (self._usable(), False), "version": 3, "stream": LEGACY,
        }  # fmt: skip

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy an array in the CPU's memory, of exactly `size` bytes in C's order.

        The copy waits for earlier launches with this memory and, if a `stream` is given, for the work queued on it. It
        has finished when this returns. Raises TypeError, ValueError, DriverError.
        """
        array = source_of(source, self.size)
        self._copy("cuMemcpyHtoD", self._usable(), array.address, stream)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Copy into a writable array of `size` bytes in C's order, after earlier launches with this memory.

        If a `stream` is given, the copy waits for the work queued on it, too. Raises TypeError, ValueError, and
        DriverError, also for a fault of an earlier kernel.
        """
        array = target_of(target, self.size)
        self._copy("cuMemcpyDtoH", array.address, self._usable(), stream)

    def free(self) -> None:
        """Give the memory back to the device; more than once is harmless."""
        address, self.address = self.address, 0
        _changed[0] = object()
        if address:
            with self._context.current(), self._context.allowed_in_captures():
                self._driver.call("cuMemFree_v2", address)
            for (context, _), recorded in self.pending.items():
                context.keep(recorded.event)

    def located(self) -> tuple[Place, int]:
        return self.place, self._usable()

    def before(self, context: Context, stream: int) -> None:
        if self.on_default:
            context.order(LEGACY, stream, self._context)
        waited = [
            each for at, each in list(self.pending.items()) if at != (context, stream) or stream == PER_THREAD
        ]
        if waited:
            with context.current():
                if not context.capturing(stream):
                    for each in waited:
                        self._driver.call("cuStreamWaitEvent", stream, each.event, 0)

    def settle(self, context: Context, stream: int) -> bool:
        """Order a launch; return whether others may follow without this until `_changed` changes."""
        self._usable()
        self.before(context, stream)
        self.on_default = True
        return not self.pending

    def after(self, context: Context, stream: int) -> None:
        """Note a launch on a stream. One that is captured into a graph does not count."""
        if context is self._context and stream in DEFAULT:
            self.on_default = True
            return
        with context.current():
            if context.capturing(stream):
                return
            recorded = self.pending.get((context, stream))
            if recorded is None:
                recorded = self.pending.setdefault((context, stream), _Recorded(context.event()))
                _changed[0] = object()
            self._driver.call("cuEventRecord", recorded.event, stream)
        recorded.times += 1
        if stream == PER_THREAD:  # another thread's stream has the same name
            self._context_waits()
            del self.pending[context, stream]

    def _context_waits(self) -> None:
        if self.pending:
            with self._context.current():
                for recorded in list(self.pending.values()):
                    self._driver.call("cuStreamWaitEvent", LEGACY, recorded.event, 0)
        self.on_default = True

    def _usable(self) -> int:
        if not self.address:
            raise ValueError(FREED)
        return self.address

    def _copy(self, function: str, target: int, source: int, stream: Any) -> None:
        handle = stream_handle(stream) or LEGACY
        if not self.size:
            return
        with self._context.current():
            for at, recorded in list(self.pending.items()):
                times = recorded.times
                self._driver.call("cuEventSynchronize", recorded.event)
                if recorded.times == times:  # no other thread has launched meanwhile
                    self.pending.pop(at, None)
            if self.on_default:
                self._context.order(LEGACY, handle)
            self._driver.call(f"{function}Async_v2", target, source, self.size, handle)
            self._driver.call("cuStreamSynchronize", handle)


class _Recorded:
    __slots__ = ("event", "times")

    def __init__(self, event: c_void_p) -> None:
        self.event = event
        self.times = 0


class Variable(Memory):
    """A variable of a loaded kernel's module; its copies wait for everything that is queued in its context."""

    __slots__ = ("_kept",)

    def __init__(self, context: Context, address: int, size: int, kept: object) -> None:
        self._context, self._driver, self.place = context, context.driver, context.place
        self.address, self.size = address, size
        self.on_default, self.pending = False, {}
        self._kept = kept

    def free(self) -> None:
        """Do nothing: it belongs to the module."""

    def _copy(self, function: str, target: int, source: int, stream: Any) -> None:
        with self._context.current():
            self._driver.call("cuCtxSynchronize")  # a launch does not say which variables its kernel uses
        super()._copy(function, target, source, stream)


_CUDA = 2  # DLDeviceType: kDLCUDA
_REACHABLE = {_CUDA, 3, 13}  # kDLCUDAHost, kDLCUDAManaged
_CONTEXT, _ORDINAL = 1, 9  # CUpointer_attribute
_MEMORY = "memory"  # the library of `Memory`, which keeps its own order
# CUlaunchConfig: grid, block, dynamic shared memory, stream; then the attributes, of which there are none.
_HEAD = "@7IP16x"
# CUDA_KERNEL_NODE_PARAMS_v2: function, grid, block, dynamic shared memory, pointers to the arguments; three are NULL
NODE = "@P7IP24x"
_ATTRIBUTES = 40  # the offset of the attributes in it
_UNKNOWN = Parameter("", 0)
# NumPy's types -> `struct`'s codes; "0" is for the alignment of what follows
_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d", "c8": "0f8s", "c16": "0d16s",
}  # fmt: skip
_TORCH = {
    "bool": "|b1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "|u1", "uint16": "<u2",
    "uint32": "<u4", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8",
    "complex128": "<c16", "bfloat16": "<V2",
}  # fmt: skip

# raises TypeError for elements of a type, as NumPy and ml_dtypes write it: "<f4", bfloat16 "<V2"; "" is not known
Accept = Callable[[str], None]
Located = tuple[Optional[Place], int]  # where an array is, None if nothing says it, and its address


class ElsewhereError(Exception):
    """An array is not where it is expected, or is not ready there: the launch must be looked at as a whole."""


class ArrayReader(NamedTuple):
    """How arrays of one type are passed, for one argument.

    `locate` returns the place and the address of an array; `address`, for the usual launch, the address alone, and
    raises ElsewhereError for an array in another place.
    """

    locate: Callable[[Any], Located]
    library: str = ""
    address: Callable[[Any, Place], int] | None = None
    # (place, array): the stream that its library uses at this moment
    stream: Callable[[Place, Any], int] | None = None
    # (place): the same, if the array does not matter
    current: Callable[[Place], int] | None = None
    # (array, stream): its address once the work of its library precedes that of the stream, in which it must then end
    # before the launch returns
    late: Callable[[Any, int], int] | None = None


def _array_reader(value: Any, accept: Accept, driver: Driver) -> ArrayReader | None:
    if isinstance(value, Memory):
        return ArrayReader(Memory.located, _MEMORY, _of_memory)
    home = _home(type(value))
    if home == "torch":
        return _torch(accept)
    if home == "cupy":
        return _cupy(accept, value)
    if home == "cuda":
        return ArrayReader(lambda buffer: (_ordinal(buffer), int(buffer.handle)))
    if home != "jax" and hasattr(value, "__cuda_array_interface__"):
        return _interface(accept, driver)
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in _REACHABLE:
        return _dlpack(accept)
    return None


def _is_on_host(value: Any) -> bool:
    try:
        if not hasattr(value, "__dlpack_device__"):  # torch's tensors are not buffers
            memoryview(value)
    except TypeError:
        return False
    return True


def _host_memory(value: Any) -> TypeError:
    return TypeError(
        f"{type(value).__name__} is host memory, which no kernel can read: copy it with kernel.upload(array), "
        "and the result back with Memory.read(array)"
    )


def _home(kind: type) -> str:
    for base in kind.__mro__:
        package, _, _ = base.__module__.partition(".")
        if (package, base.__name__) in {("torch", "Tensor"), ("cupy", "ndarray"), ("cuda", "Buffer")}:
            return package
        if package in {"jax", "jaxlib"}:
            return "jax"
    return ""


def _of_memory(memory: Memory, place: Place) -> int:
    address = memory.address
    if not address or memory.place is not place or memory.pending:
        raise ElsewhereError
    memory.on_default = True
    return address


def _ordinal(buffer: Any) -> int | None:
    return buffer.device_id if buffer.device_id >= 0 else None


def _torch(accept: Accept) -> ArrayReader:
    torch = sys.modules["torch"]
    accepted: set[Any] = set()
    usual: list[Any] = [None]  # the dtype of the last array; to look it up in the set takes longer
    where, address, is_dense = torch.Tensor.get_device, torch.Tensor.data_ptr, torch.Tensor.is_contiguous

    def locate(tensor: Any) -> Located:
        place = where(tensor)
        if place < 0:
            raise _host_memory(tensor)
        if tensor.dtype not in accepted:
            accept(_TORCH.get(str(tensor.dtype)[6:], ""))
            if not tensor.dtype.is_complex:  # those may be conjugated only when they are read
                accepted.add(tensor.dtype)
            elif tensor.is_conj():
                raise ValueError("a conjugated view: its memory has other values; pass tensor.resolve_conj()")
        usual[0] = tensor.dtype if tensor.dtype in accepted else None
        if tensor.is_neg():
            raise ValueError("a negated view: its memory has other values; pass tensor.resolve_neg()")
        if not is_dense(tensor):
            refuse_gaps(tensor, tensor.shape, tensor.stride(), 1)
        return place, address(tensor)

    def address_in(tensor: Any, place: Place) -> int:
        if where(tensor) != place or tensor.dtype is not usual[0] or not is_dense(tensor):
            raise ElsewhereError
        found: int = address(tensor)
        return found

    def of_device(place: Place) -> int:
        found: int = torch.cuda.current_stream(place).cuda_stream
        return found

    # Triton's way, at a tenth of the time
    current = getattr(torch._C, "_cuda_getCurrentRawStream", of_device)
    return ArrayReader(locate, "torch", address_in, lambda place, _: current(place), current)


def _cupy(accept: Accept, example: Any) -> ArrayReader:
    current = sys.modules["cupy"].cuda.get_current_stream
    accepted: set[Any] = set()
    usual: list[Any] = [None]  # the dtype of the last array; to look it up in the set takes longer

    def locate(array: Any) -> Located:
        if array.dtype not in accepted:
            accept(array.dtype.str)
            accepted.add(array.dtype)
        usual[0] = array.dtype
        refuse_gaps(array, array.shape, array.strides, array.itemsize)
        data = array.data
        return data.device_id, data.ptr

    def address_in(array: Any, place: Place) -> int:
        data = array.data
        # `flags` takes six times as long
        if data.device_id != place or array.dtype is not usual[0] or not array._c_contiguous:
            raise ElsewhereError
        found: int = data.ptr
        return found

    def of_device(place: Place) -> int:
        found: int = current(place).ptr
        return found

    address = address_in if hasattr(example, "_c_contiguous") else None
    return ArrayReader(locate, "cupy", address, lambda place, _: of_device(place), of_device)


def _interface(accept: Accept, driver: Driver) -> ArrayReader:
    """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html; the driver knows where the array is."""
    accepted: set[str] = set()

    def locate(array: Any) -> Located:
        try:
            interface = array.__cuda_array_interface__
        except AttributeError:  # some of one type may be in host memory
            raise _host_memory(array) from None
        if interface["typestr"] not in accepted:
            accept(interface["typestr"])
            accepted.add(interface["typestr"])
        if interface.get("strides") is not None:  # None: contiguous
            size = int(interface["typestr"][2:].partition("[")[0])  # "<f4", "<M8[ns]"
            refuse_gaps(array, interface["shape"], interface["strides"], size)
        address = int(interface["data"][0])
        return place_of(driver, address), address

    def stream(_: Place, array: Any) -> int:
        found = array.__cuda_array_interface__.get("stream")
        if found is not None:
            return int(found)
        # the default stream, which Numba can make each thread's own
        own = os.environ.get("NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in {"", "0"}
        return PER_THREAD if own and "numba" in sys.modules else 0

    return ArrayReader(locate, "interface", stream=stream)


def place_of(driver: Driver, address: int) -> Place | None:
    ordinal = driver.pointer(address, _ORDINAL) if address else None
    if ordinal is None:
        return None
    context = driver.pointer(address, _CONTEXT)  # none: memory of a pool, which belongs to the device
    return given_context(driver, context).place if context else ordinal


def _dlpack(accept: Accept) -> ArrayReader:
    """Arrays of JAX and those with DLPack alone: their library waits before, but is not told when the kernel has
    ended.
    """

    def locate(array: Any) -> Located:
        kind, device = array.__dlpack_device__()
        if kind not in _REACHABLE:
            raise _host_memory(array)
        return (int(device) if kind == _CUDA else None), 0

    def late(array: Any, stream: int) -> int:
        capsule = array.__dlpack__(stream=stream or LEGACY)
        tensor = tensor_of(capsule)
        accept(_typestr(tensor))
        if tensor.strides:  # NULL: contiguous
            refuse_gaps(array, tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim], 1)
        return int((tensor.data or 0) + tensor.byte_offset)

    return ArrayReader(locate, late=late)


def _typestr(tensor: DLTensor) -> str:
    kind = DLPACK_KINDS.get(tensor.code)
    return f"<{kind}{tensor.bits // 8}" if kind and (kind == "V" or tensor.lanes == 1) else ""


class Reader(NamedTuple):
    code: str
    given: Given
    value: Callable[[Any], Any] | None = None


def reader(position: int, value: Any, spelled: str = "") -> Reader:
    """Return how numbers and structs of this one's type are passed; raises TypeError for anything else."""
    kind = type(value)
    if is_scalar(kind) and value.dtype.name == "bfloat16":
        return Reader("0H2s", Given("scalar", "<V2", 2, type_name(kind)), kind.tobytes)
    try:
        given = given_value(value)
        if given is None:
            raise _host_memory(value) if _is_on_host(value) else TypeError(refusal(value, spelled))
        if given.kind == "struct":
            return Reader(f"0Q{given.size}s", given, bytes)
        if given.kind != "scalar":
            return Reader("P", given, _pointer)
        code = _CODES.get(given.dtype[1:])
        if code is None:  # GPUs have no long double
            raise TypeError(f"{given.type} is not a type that a kernel can have")
    except TypeError as error:
        raise TypeError(f"argument {position}: {error}") from None
    if isinstance(value, ctypes._SimpleCData):
        return Reader(code, given, whole if isinstance(value.value, (bytes, str)) else attrgetter("value"))
    return Reader(code, given, kind.tobytes if "s" in code else None)


def _pointer(value: Any) -> int:
    return ctypes.cast(value, c_void_p).value or 0


def _limited(parameter: Parameter, position: int, least: int, most: int, read: Any) -> Callable[[Any], int]:
    """Return a function for numbers whose type has values that the parameter's does not have."""

    def value_of(number: Any) -> int:
        value = int(number) if read is None else int(read(number))
        if not least <= value <= most:
            raise TypeError(outside(parameter, position, value))
        return value

    return value_of


def _placeless(read: Callable[[Any], Any]) -> Callable[[Any, Place], Any]:
    return lambda value, _: read(value)


def _packer(head: str, codes: Sequence[tuple[str, str]]) -> tuple[Callable[..., None], int, list[int]]:
    code, offsets = head, []
    for alignment, part in codes:
        offsets.append(struct.calcsize(code + alignment))
        code += part
    packer = struct.Struct(code)
    return packer.pack_into, packer.size, offsets


def _accept(parameter: Parameter, position: int, name: str, dtype: str) -> None:
    problem = misfit(parameter, position, Given("array", dtype, 8, name))
    if problem:
        raise TypeError(problem)


class Layout:
    """How the arguments of one launch signature are read and packed.

    `readers` has a function for each argument that is not packed as it is; that of an array returns its place, too.
    `arrays`, `memories`, `pointers` (bare addresses) and `floats` are positions. `streams` has a function for the
    stream of an array by its position, and `sources` those that count: one for each library. `late` are the arrays that
    are read once the launch's stream is known.

    `direct` has the readers of the usual launch with their positions, if all arrays are of one library, or `Memory` on
    the default stream; None if the arguments are others. `current` returns that library's stream. `usuals` is what such
    launches use in each place, and `usual` what the last one did.
    """

    __slots__ = ("_offsets", "_pack", "_pack_node", "_size", "arrays", "current", "direct", "floats", "late",
                 "memories", "node_offsets", "node_size", "pointers", "pool", "readers", "sources", "streams", "usual",
                 "usuals")  # fmt: skip

    def __init__(self, arguments: Sequence[Any], entry: Entry, driver: Driver) -> None:
        self.readers: list[Callable[[Any], Any] | None] = []
        self.arrays: list[int] = []
        self.memories: list[int] = []
        self.pointers: list[int] = []
        self.streams: dict[int, Callable[[Any, Any], int]] = {}
        self.sources: list[tuple[int, Callable[[Any, Any], int]]] = []
        self.late: list[tuple[int, Callable[[Any, int], int]]] = []
        codes: list[tuple[str, str]] = []
        libraries: set[str] = set()
        given: list[Given] = []
        directs: list[tuple[int, Callable[[Any, Place], Any]]] = []
        is_usual, current = True, None
        parameters = entry.parameters or ()
        for position, value in enumerate(arguments):
            parameter = parameters[position] if position < len(parameters) else _UNKNOWN
            array = _array_reader(
                value, partial(_accept, parameter, position, type_name(type(value))), driver
            )
            if array is None:
                number = reader(position, value, spelled(parameter, value))
                given.append(number.given)
                alignment = number.code[:2] if number.code[0] == "0" else f"0{number.code}"
                part, read = number.code, number.value
                if read is _pointer:
                    self.pointers.append(position)
                bounds = limits(parameter, number.given.dtype)
                if bounds is not None:
                    read = _limited(parameter, position, *bounds, read)
                direct = None if read is None else _placeless(read)
            else:
                given.append(given_array(type(value), value.dtype if array.library == _MEMORY else ""))
                alignment, part, read = "0P", "P", array.locate
                self._add_array(position, array, libraries)
                direct = array.address
                is_usual, current = is_usual and direct is not None, array.current
            if direct is not None:
                directs.append((position, direct))
            codes.append((alignment, part))
            self.readers.append(read)
        check(entry, given)
        self.floats = [at for at, (_, part) in enumerate(codes) if part in {"e", "f", "d"}]
        one_library = len(self.sources) + bool(self.memories) == 1
        self.direct = directs if is_usual and one_library else None
        self.current = current
        self._pack, self._size, self._offsets = _packer(_HEAD, codes)
        self._pack_node, self.node_size, self.node_offsets = _packer(NODE, codes)
        self.pool: list[Frame] = []
        self.usual: Any = None
        self.usuals: dict[Place, Any] = {}

    def _add_array(self, position: int, array: ArrayReader, libraries: set[str]) -> None:
        self.arrays.append(position)
        if array.late is not None:
            self.late.append((position, array.late))
        if array.library == _MEMORY:
            self.memories.append(position)
        if array.stream is None:
            return
        self.streams[position] = array.stream
        # arrays with the interface name a stream each, others have one for all
        if array.library == "interface" or array.library not in libraries:
            self.sources.append((position, array.stream))
            libraries.add(array.library)

    def write(
        self, frame: Frame, grid: Dim, block: Dim, shared: int, queue: int, values: Sequence[Any]
    ) -> None:
        xyz_grid, xyz_block, shared = launch_size(grid, block, shared)
        try:
            self._pack(frame.buffer, 0, *xyz_grid, *xyz_block, shared, queue, *values)
        except (struct.error, OverflowError) as error:
            raise ValueError(
                f"grid {grid}, block {block}, shared {shared}, stream {queue}: {error}"
            ) from None

    def write_node(self, replay: Replay, function: int, grid: Dim, block: Dim, values: Sequence[Any]) -> None:
        dims = *three(grid), *three(block)
        self._pack_node(replay.buffer, 0, function, *dims, 0, replay.parameters, *values)

    def frame(self) -> Frame:
        """Return memory for a launch; put it back into `pool` when the driver has copied its content."""
        try:
            return self.pool.pop()
        except IndexError:
            return Frame(self._size, self._offsets)


def aligned(size: int) -> Any:
    raw = (c_uint64 * (size // 8 + 3))()
    return (c_char * size).from_buffer(raw, -ctypes.addressof(raw) % 16)


class Frame:
    """The memory of one launch at a time, from `buffer` on: CUlaunchConfig, then the arguments."""

    __slots__ = ("buffer", "config", "kept", "parameters")

    def __init__(self, size: int, offsets: Sequence[int]) -> None:
        self.buffer = aligned(size)
        base = ctypes.addressof(self.buffer)
        self.config = byref(self.buffer)
        self.parameters = byref((c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets)))
        self.kept: object = None  # what a bound launch must keep alive

    def add_attributes(self, attributes: Any) -> None:
        c_void_p.from_buffer(self.buffer, _ATTRIBUTES).value = ctypes.addressof(attributes)
        ctypes.c_uint.from_buffer(self.buffer, _ATTRIBUTES + 8).value = len(attributes)


_BLOCK_THREADS, _SHARED_OPTIN = 1, 97  # CUdevice_attribute
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_KERNEL_THREADS, _STATIC_SHARED, _REGISTERS = 0, 1, 4  # CUfunction_attribute
_DYNAMIC_SHARED, _LARGE_CLUSTERS = 8, 14
_PORTABLE_CLUSTER = 8  # blocks, on every GPU that has clusters
_AXES = (("grid", "x", 5), ("grid", "y", 6), ("grid", "z", 7),
         ("block", "x", 2), ("block", "y", 3), ("block", "z", 4))  # fmt: skip


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Attributes:
    def __init__(self, cooperative: bool, cluster: Any) -> None:
        self._cluster: tuple[int, ...] = () if cluster is None else three(cluster, "cluster")
        values: list[tuple[int, tuple[int, ...]]] = [(_COOPERATIVE, (1,))] if cooperative else []
        values += [(_CLUSTER, self._cluster)] if self._cluster else []
        self._data = (_Attribute * len(values))(
            *(_Attribute(number, 0, (ctypes.c_uint * 16)(*value)) for number, value in values)
        )

    def apply(self, context: Context, function: int, frame: Frame) -> None:
        if context.driver.c.cuLaunchKernelEx is None:
            raise ValueError("cooperative launches and clusters need a driver for CUDA 11.8 or newer")
        if math.prod(self._cluster) > _PORTABLE_CLUSTER:
            with context.current():
                context.driver.call("cuFuncSetAttribute", function, _LARGE_CLUSTERS, 1)
        frame.add_attributes(self._data)


def _raise_shared(context: Context, name: str, function: int, requested: int) -> int:
    """Let a kernel have all dynamic shared memory that its device has, and return how many bytes that is."""
    driver = context.driver
    with context.current():
        static = driver.attribute(function, _STATIC_SHARED)
        most = driver.device_attribute(context.ordinal, _SHARED_OPTIN) - static
        if requested > most:
            device = driver.devices[context.ordinal]
            own = f" beside its {static} bytes of static shared memory" if static else ""
            raise ValueError(
                f"shared {requested}: a block of {name} can have at most {most} bytes{own} on GPU {context.ordinal}, "
                f"{device.name}"
            )
        # other launches of it may want more
        driver.call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, most)
    return most


def _limit_broken(context: Context, name: str, function: int, frame: Frame) -> str:
    driver, dims = context.driver, (ctypes.c_uint * 7).from_buffer(frame.buffer)
    gpu = f"GPU {context.ordinal}, {driver.devices[context.ordinal].name}"
    for (what, axis, attribute), given in zip(_AXES, dims):
        most = driver.device_attribute(context.ordinal, attribute)
        if given > most:
            return f"{what} {axis} is {given}, and {gpu}, allows {most}"
    threads = dims[3] * dims[4] * dims[5]
    most = driver.device_attribute(context.ordinal, _BLOCK_THREADS)
    if threads > most:
        return f"a block has {threads} threads, and {gpu}, allows {most}"
    with context.current():
        most, registers = (driver.attribute(function, each) for each in (_KERNEL_THREADS, _REGISTERS))
    if threads > most:
        return (
            f"a block has {threads} threads, and {name}, with {registers} registers for each, allows {most}"
        )
    return ""


# A graph runs only once at a time, so each is used on one stream. It cannot be launched into a capture, ignores its
# stream's priority and the SMs of a green context, and profilers show it as a whole: then launches are plain.
# https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html
OFF = "GPUFORGE_LAUNCH_GRAPHS"  # "0": every launch is a plain one
_PROFILER = "CUDA_INJECTION64_PATH"  # the driver loads a profiler from here
BEFORE = 16  # launches before a graph pays off: it takes 24 us to make and some 100 kB on the device
_MOST, _MOST_STREAMS = 256, 16  # graphs in a process, and streams for which launches of one kind have some
_FUNCTIONS = (
    "cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy", "cuStreamIsCapturing", "cuStreamGetPriority",
    "cuStreamGetCtx",
)  # fmt: skip


class Replay:
    """A graph with one kernel, for launches on one stream. Not for two threads at once.

    A launch is packed into `buffer`; `sent` is the launch that the graph has now. It may be sent while `ask(*at)`
    returns 0 and leaves `expected` in `current`: for the default stream, which each context has, this means that the
    kernel's context is current; for any other, that no capture is under way.
    """

    __slots__ = ("_context", "_graph", "_here", "_kept", "_made", "ask", "at", "buffer", "current", "expected",
                 "instance", "look", "node", "node_at", "parameters", "queue", "send", "sent", "set",
                 "whole")  # fmt: skip

    def __init__(self, context: Context, queue: int, size: int, offsets: Sequence[int], kept: object) -> None:
        driver = context.driver
        self.buffer = aligned(size)
        base = ctypes.addressof(self.buffer)
        pointers = (c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
        self.parameters = ctypes.addressof(pointers)
        self.node_at = byref(self.buffer)
        self.queue = c_void_p.from_param(queue)
        self.current = c_void_p()
        is_default = queue in DEFAULT
        self.ask = driver.quick("cuCtxGetCurrent" if is_default else "cuStreamIsCapturing", holds_gil=True)
        self.at: tuple[Any, ...] = (*(() if is_default else (self.queue,)), byref(self.current))
        self.expected = context.handle if is_default else None
        self.look, self._here = driver.quick("cuCtxGetCurrent", holds_gil=True), c_void_p()
        self.set = driver.quick("cuGraphExecKernelNodeSetParams_v2", holds_gil=True)
        self.send = driver.quick("cuGraphLaunch")
        self.sent: object = None
        self._context = context
        self._kept = kept, pointers
        self._graph, self._made = c_void_p(), c_void_p()

    def make(self) -> None:
        driver, node = self._context.driver, c_void_p()
        shared().graphs.add(id(self))
        with self._context.current(), self._context.allowed_in_captures():
            driver.call("cuGraphCreate", byref(self._graph), 0)
            driver.call("cuGraphAddKernelNode_v2", byref(node), self._graph, None, 0, self.node_at)
            driver.call("cuGraphInstantiateWithFlags", byref(self._made), self._graph, 0)
        self.node, self.instance = c_void_p.from_param(node.value), c_void_p.from_param(self._made.value)
        self.whole = self.instance, self.queue  # a call with a tuple that exists is the fastest

    def update(self) -> bool:
        """Take the launch in `buffer`; False if not. Without a current context the driver would end the process."""
        self.look(byref(self._here))  # not `current`, of which cuStreamIsCapturing writes only four bytes
        return self._here.value == self._context.handle and not self.set(
            self.instance, self.node, self.node_at
        )

    def __del__(self) -> None:
        driver = self._context.driver
        shared().graphs.discard(id(self))
        if driver.pid != os.getpid():
            return  # a forked child: the driver belongs to the parent
        with contextlib.suppress(DriverError), self._context.current(), self._context.allowed_in_captures():
            if self._made:
                driver.call("cuGraphExecDestroy", self._made)
            if self._graph:
                driver.call("cuGraphDestroy", self._graph)


class Replays:
    """The graphs that are not in use, by stream, for launches in a context whose arguments have the same types."""

    def __init__(self, context: Context, size: int, offsets: Sequence[int], kept: object) -> None:
        self._context = context
        self._about = size, offsets, kept
        self._launches: dict[int, int] = {}
        self.idle: dict[int, list[Replay]] = {}

    def launched(self, queue: int, pack: Callable[[Replay], None]) -> None:
        """Note a plain launch on a stream; after some of them make a graph of it, which `pack` writes."""
        count = self._launches.get(queue, 0) + 1
        if count > 1 or len(self._launches) < _MOST_STREAMS:
            self._launches[queue] = count
        if count % BEFORE == 0:
            replay = self.made(queue, pack)
            if replay is not None:
                self.idle.setdefault(queue, []).append(replay)

    def made(self, queue: int, pack: Callable[[Replay], None]) -> Replay | None:
        """Return a graph of a launch, which `pack` writes, None if launches on this stream must be plain."""
        off = len(shared().graphs) >= _MOST or os.environ.get(OFF) == "0" or _PROFILER in os.environ
        try:
            with self._context.current():
                if off or not self._can_replay(queue):
                    return None
            replay = Replay(self._context, queue, *self._about)
            pack(replay)
            replay.make()
        except DriverError:
            return None  # the plain launch finds the same error, and reports it
        return replay

    def _can_replay(self, queue: int) -> bool:
        driver, priority, owner = self._context.driver, c_int(), c_void_p()
        if any(getattr(driver.c, name) is None for name in _FUNCTIONS):
            return False
        if queue in DEFAULT:
            return True
        if queue == PER_THREAD or self._context.capturing(queue):
            return False
        driver.call("cuStreamGetPriority", queue, byref(priority))
        driver.call("cuStreamGetCtx", queue, byref(owner))
        return not priority.value and owner.value == self._context.handle


Dim = Union[int, "tuple[int, ...]"]
BLOCKING = "GPUFORGE_LAUNCH_BLOCKING"
_DEVICE_POINTER, _IS_MANAGED = 3, 8  # CUpointer_attribute
_DEFAULT_SHARED = 48 * 1024  # bytes of a block that every kernel may have
_REFUSED = {1, 701}  # CUresult: CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES


class LoadedKernel:
    """A kernel in one context."""

    __slots__ = ("_loaded", "ask", "context", "current", "function", "handle", "launch", "name", "shared")

    def __init__(self, name: str, context: Context, function: Function) -> None:
        driver = context.driver
        self.name = name
        self.context = context
        self.handle = function.handle
        self._loaded = function.loaded
        self.current = context.handle
        self.function = c_void_p.from_param(function.handle)
        self.ask = driver.quick("cuCtxGetCurrent", holds_gil=True)
        self.launch = driver.quick("cuLaunchKernelEx") or _without_ex(driver.c.cuLaunchKernel, self.handle)
        with context.current():
            # dynamic shared memory in bytes that a launch may have without a further call
            self.shared = _DEFAULT_SHARED - driver.attribute(self.handle, _STATIC_SHARED)

    def send(self, frame: Frame) -> None:
        current = c_void_p()
        if not self.ask(byref(current)) and current.value == self.current:
            code = self.launch(frame.config, self.function, frame.parameters, None)
        else:
            code = self.launch_from(current.value, frame)
        if code:
            reason = _limit_broken(self.context, self.name, self.handle, frame) if code in _REFUSED else ""
            raise self.context.driver.error("cuLaunchKernel", code, reason, kernel=self.name)

    def launch_from(self, current: int | None, frame: Frame) -> int:
        """Launch while another context is current, or none: then device 0 stays current, as with CUDA's runtime API."""
        if not current and self.context.place == 0:
            self.context.driver.call("cuCtxSetCurrent", self.context.handle)
            return int(self.launch(frame.config, self.function, frame.parameters, None))
        with self.context.current():
            return int(self.launch(frame.config, self.function, frame.parameters, None))

    def variable(self, name: str) -> Variable:
        with self.context.current(), self.context.allowed_in_captures():
            address, size = self.context.driver.variable(self._loaded.module, name)
        return Variable(self.context, address, size, self._loaded)


class Kernel(Uploads):
    """A kernel on every GPU that its arrays may be on. Safe to use from several threads.

    It is loaded for a device at the first launch there. A launch without arrays goes to the device that is current in
    the thread. If it was looked up with `device` or `context`, it runs there alone.
    """

    __slots__ = ("_blocking", "_demand", "_driver", "_entry", "_layouts", "_load", "_loaded", "module",
                 "name")  # fmt: skip
    backend = "cuda"

    def __init__(
        self,
        loaded: LoadedKernel,
        *,
        demand: Place | None,
        load: Callable[[Place], LoadedKernel],
        entry: Entry,
        env: Mapping[str, str],
    ) -> None:
        self.name = entry.name
        self._driver: Driver = loaded.context.driver
        self._demand = demand
        self._load = load
        self._loaded: dict[Place, LoadedKernel] = {loaded.context.place: loaded}
        self._entry = entry
        self._layouts: dict[tuple[type, ...], Layout] = {}
        self._blocking = env.get(BLOCKING, "") not in {"", "0"}

    @property
    def device(self) -> str:
        """The device's name and its driver's release, to which a measurement belongs."""
        from ...driver import driver_release

        device = self._driver.devices[self._here().context.ordinal]
        return f"{device.name}, driver {driver_release() or 'unknown'}"

    @property
    def loaded(self) -> LoadedKernel:
        return self._here()

    @property
    def handle(self) -> int:
        """The CUfunction on the device that is current in this thread, valid as long as this object exists."""
        return self._here().handle

    def memory(self, size: int) -> Memory:
        """Allocate `size` bytes, freed by a `with` statement, on the device that is current in this thread.

        Raises DriverError.
        """
        return Memory(self._here().context, size)

    def variable(self, name: str) -> Memory:
        """Return a `__constant__` or `__device__` variable of the kernel's module on the thread's current device.

        Raises DriverError.
        """
        return self._here().variable(name)

    def launch(
        self,
        grid: Dim,
        block: Dim,
        *arguments: Any,
        shared: int = 0,
        stream: Any = None,
        cooperative: bool = False,
        cluster: Dim | None = None,
    ) -> None:
        """Queue the kernel over `grid` blocks of `block` threads, each a number or up to three.

        It runs on the device of its arrays. An argument is a number of ctypes or NumPy, a ctypes structure, or an array
        in device memory: a `Memory`, or anything with `__cuda_array_interface__` or DLPack, whose elements fill one
        block of memory, in any order of the axes.

        Without `stream`, the kernel is queued on the stream that the library of the first array uses now on that device
        (CuPy, torch, Numba), else on the default stream. Work of its arrays' libraries that is queued now is done
        before, and what they queue afterwards comes after. A launch with arrays of JAX returns when it has ended. With
        `stream`, a CUstream as a number or a stream of CuPy, torch, cuda.core, the kernel is queued there, after the
        work of its arrays' libraries; what they queue afterwards may run before it.

        `shared` is dynamic shared memory in bytes, up to what the device has. With `cooperative`, all blocks run at the
        same time and may wait for each other; `cluster` is the number of blocks in a cluster.

        Raises TypeError (also for host memory: copy it with `upload`), ValueError (also for an array with gaps, and for
        arrays of several devices), KernelUnavailable if the kernel cannot run on that device, DriverError. A fault
        inside the kernel shows in the next `Memory.read`; with GPUFORGE_LAUNCH_BLOCKING=1 in the environment, here.
        """
        layout = self._layouts.get(tuple(map(type, arguments))) or self._layout(arguments)
        usual = layout.usual
        if usual is not None and stream is None and not (shared or cooperative or cluster):
            # as the last launch of such arguments: the figures of bench/launch.py need this way beside the whole one
            place, values = usual.place, list(arguments)
            try:
                for position, read in layout.direct or ():
                    values[position] = read(values[position], place)
            except ElsewhereError:
                pass
            else:
                usual.launch(layout, grid, block, values)
                return
        attributes = _Attributes(cooperative, cluster) if cooperative or cluster is not None else None
        frame = layout.frame()
        try:
            loaded, queue, others, _ = self._fill(
                frame, layout, grid, block, shared, stream, attributes, arguments
            )
            loaded.send(frame)
        finally:
            layout.pool.append(frame)
        if others or layout.memories or layout.late or self._blocking:
            self._after(loaded, queue, others if stream is None else (), layout, arguments)

    def bind(
        self,
        grid: Dim,
        block: Dim,
        *arguments: Any,
        shared: int = 0,
        stream: Any = None,
        cooperative: bool = False,
        cluster: Dim | None = None,
    ) -> Callable[[], None]:
        """Return a function that launches with these arguments, which are read now. Raises as `launch`.

        It keeps the arguments alive, and stays on the stream of now. It waits for other streams now, not at each call.
        """
        layout = self._layouts.get(tuple(map(type, arguments))) or self._layout(arguments)
        attributes = _Attributes(cooperative, cluster) if cooperative or cluster is not None else None
        frame = layout.frame()
        loaded, queue, _, values = self._fill(
            frame, layout, grid, block, shared, stream, attributes, arguments
        )
        frame.kept = arguments, attributes
        after = None
        ordered = layout.late or self._blocking or (layout.memories and queue not in DEFAULT)
        if ordered:

            def after() -> None:
                self._after(loaded, queue, (), layout, arguments)

        memories = tuple(arguments[position] for position in layout.memories)
        make = None
        if layout.direct is not None and not (shared or cooperative or cluster):

            def make() -> Replay | None:
                replays = Replays(loaded.context, layout.node_size, layout.node_offsets, loaded)
                return replays.made(
                    queue,
                    lambda replay: layout.write_node(replay, loaded.handle, grid, block, values),
                )

        return _repeating(loaded, frame, queue, memories, after, make)

    def _fill(
        self, frame: Frame, layout: Layout, grid: Dim, block: Dim, shared: int, stream: Any,
        attributes: _Attributes | None, arguments: tuple[Any, ...],
    ) -> tuple[LoadedKernel, int, list[tuple[Context, int]], list[Any]]:  # fmt: skip
        """Write a launch into a frame, behind the work of its arrays' libraries; return what `_after` needs."""
        values = [value if read is None else read(value) for read, value in zip(layout.readers, arguments)]
        place, others = self._place(layout, arguments, values)
        loaded = self._loaded.get(place) or self._at(place)
        context = loaded.context
        streams = [of(place, arguments[position]) for position, of in layout.sources]
        queue = stream_handle(stream) if stream is not None else streams[0] if streams else 0
        others += [(context, theirs) for theirs in streams if theirs != queue]
        for their_context, theirs in others:
            context.order(theirs, queue, their_context)
        for position in layout.memories:
            arguments[position].before(context, queue)
        for position, late in layout.late:
            values[position] = late(arguments[position], queue)
        layout.write(frame, grid, block, shared, queue, values)
        if shared > loaded.shared:
            loaded.shared = _raise_shared(context, self.name, loaded.handle, shared)
        if attributes is not None:
            attributes.apply(context, loaded.handle, frame)
        if layout.direct is not None and not others and not self._blocking:
            layout.usual = layout.usuals.get(place) or layout.usuals.setdefault(
                place, _Usual(layout, place, loaded)
            )
        return loaded, queue, others, values

    def _place(
        self, layout: Layout, arguments: tuple[Any, ...], values: list[Any]
    ) -> tuple[Place, list[tuple[Context, int]]]:
        """Return the place of a launch, and the streams of arrays elsewhere; leave only the addresses in `values`."""
        place = self._demand
        for position in layout.arrays:
            at, values[position] = values[position]
            if at != place and at is not None:
                if place is not None:
                    return self._gather(layout, arguments, values)
                place = at
        return self._without_arrays(layout, values) if place is None else place, []

    def _after(
        self,
        loaded: LoadedKernel,
        queue: int,
        others: Sequence[tuple[Context, int]],
        layout: Layout,
        arguments: tuple[Any, ...],
    ) -> None:
        for context, theirs in others:
            context.order(queue, theirs, loaded.context)
        for position in layout.memories:
            arguments[position].after(loaded.context, queue)
        if layout.late or self._blocking:
            with loaded.context.current():
                if not loaded.context.capturing(queue):
                    code = self._driver.c.cuStreamSynchronize(queue)
                    if code:
                        raise self._driver.error("cuStreamSynchronize", code, kernel=self.name)

    def _layout(self, arguments: tuple[Any, ...]) -> Layout:
        layout = Layout(arguments, self._entry, self._driver)
        return self._layouts.setdefault(tuple(map(type, arguments)), layout)

    def _here(self) -> LoadedKernel:
        place = current_place(self._driver) if self._demand is None else self._demand
        return self._loaded.get(place) or self._at(place)

    def _at(self, place: Place) -> LoadedKernel:
        return self._loaded.setdefault(place, self._load(place))

    def _without_arrays(self, layout: Layout, values: Sequence[Any]) -> Place:
        for position in layout.pointers:
            place = place_of(self._driver, values[position])
            if place is not None:
                return place
        return current_place(self._driver)

    def _gather(
        self, layout: Layout, arguments: Sequence[Any], values: list[Any]
    ) -> tuple[Place, list[tuple[Context, int]]]:
        """Return the place of an array from which all others can be reached, and the streams of the others."""
        places: dict[int, Place] = {}
        for position in layout.arrays:
            read = layout.readers[position]
            assert read is not None  # noqa: S101  arrays have readers
            at, values[position] = read(arguments[position])
            if at is not None:
                places[position] = at
        if isinstance(self._demand, Context):  # a library names a device, and may use another context of it
            places = {p: place_of(self._driver, values[p]) or at for p, at in places.items()}
        late = {position for position, _ in layout.late}
        for place in dict.fromkeys([self._demand] if self._demand is not None else places.values()):
            away = [position for position, at in places.items() if at != place]
            if not late.intersection(away) and all(self._reaches(place, values[p]) for p in away):
                streams = {
                    (
                        self._context(places[position]),
                        layout.streams[position](places[position], arguments[position]),
                    )
                    for position in away
                    if position in layout.streams
                }
                return place, list(streams)
        raise ValueError(self._scattered(places))

    def _reaches(self, place: Place, address: int) -> bool:
        """Return whether a kernel may use an address of another place; on demand, only managed memory."""
        if not address:
            return True
        if self._driver.pointer(address, _IS_MANAGED):
            return True
        with self._context(place).current():
            return self._demand is None and self._driver.pointer(address, _DEVICE_POINTER) is not None

    def _context(self, place: Place) -> Context:
        return place if isinstance(place, Context) else primary_context(self._driver, place)

    def _scattered(self, places: Mapping[int, Place]) -> str:
        names = {position: str(self._context(place)) for position, place in places.items()}
        if self._demand is not None:
            here = str(self._context(self._demand))
            position, there = next((p, name) for p, name in names.items() if name != here)
            return (
                f"argument {position} is on {there}, and the kernel {self.name} was looked up for {here}: look it up "
                "without `device` and `context` to launch it where its arrays are"
            )
        (first, one), *rest = names.items()
        second, other = next((p, name) for p, name in rest if name != one)
        return (
            f"argument {first} is on {one} and argument {second} on {other}, and neither can reach the other: copy one "
            "of them to the other's device"
        )


class _Usual:
    """Launches in one place whose arrays are of one library, or all `Memory`, on the stream that is current there."""

    __slots__ = ("_current", "_loaded", "_replays", "place")

    def __init__(self, layout: Layout, place: Place, loaded: LoadedKernel) -> None:
        self.place = place
        self._loaded = loaded
        self._current = layout.current
        self._replays = Replays(loaded.context, layout.node_size, layout.node_offsets, loaded)

    def launch(self, layout: Layout, grid: Dim, block: Dim, values: Sequence[Any]) -> None:
        queue = self._current(self.place) if self._current is not None else 0
        if type(grid) is not int or type(block) is not int:
            grid, block = three(grid, "grid"), three(block, "block")
        launch = grid, block, values
        try:
            pool = self._replays.idle[queue]
            replay = pool.pop()
        except (KeyError, IndexError):  # none yet, or other threads use all
            self._launch_plainly(layout, queue, *launch)
            return
        try:
            ready = replay.sent == launch
            if not ready:
                replay.sent = None
                layout.write_node(replay, self._loaded.handle, *launch)
                ready = replay.update()
                if ready and all(values[position] for position in layout.floats):  # 0.0 equals -0.0
                    replay.sent = launch
            if not ready or replay.ask(*replay.at) or replay.current.value != replay.expected:
                self._launch_plainly(layout, queue, *launch)
            elif code := replay.send(*replay.whole):
                loaded = self._loaded
                raise loaded.context.driver.error("cuGraphLaunch", code, kernel=loaded.name)
        finally:
            pool.append(replay)

    def _launch_plainly(
        self, layout: Layout, queue: int, grid: Dim, block: Dim, values: Sequence[Any]
    ) -> None:
        frame, loaded = layout.frame(), self._loaded
        try:
            layout.write(frame, grid, block, 0, queue, values)
            loaded.send(frame)
        finally:
            layout.pool.append(frame)
        self._replays.launched(
            queue, lambda replay: layout.write_node(replay, loaded.handle, grid, block, values)
        )


def _repeating(
    loaded: LoadedKernel,
    frame: Frame,
    queue: int,
    memories: tuple[Memory, ...],
    after: Callable[[], None] | None,
    make: Callable[[], Replay | None] | None,
) -> Callable[[], None]:
    """Return a function that launches what a frame has, after `BEFORE` times as the graph of `make`.

    An object with these values would be called more slowly.
    """
    context, left = loaded.context, BEFORE
    seen: object = None  # the change after which all memories were settled
    replays: list[Replay] = []  # the graph, while no thread uses it

    def plainly() -> None:
        nonlocal left
        loaded.send(frame)
        left -= 1
        if left == 0 and make is not None:
            replay = make()
            if replay is not None:
                replays.append(replay)

    def again() -> None:
        """Queue the kernel once more, from any thread; raises ValueError if its memory was freed, DriverError."""
        nonlocal seen
        now = _changed[0]
        if seen is not now:
            settled = [memory.settle(context, queue) for memory in memories]
            seen = now if all(settled) else None
        try:
            replay = replays.pop()
        except IndexError:
            plainly()
        else:
            try:
                if replay.ask(*replay.at) or replay.current.value != replay.expected:
                    plainly()
                elif code := replay.send(*replay.whole):
                    raise context.driver.error("cuGraphLaunch", code, kernel=loaded.name)
            finally:
                replays.append(replay)
        if after is not None:
            after()

    return again


def _without_ex(launch: Any, handle: int) -> Any:
    """Return cuLaunchKernelEx for a driver before CUDA 11.8, implemented with cuLaunchKernel."""

    def launch_ex(config: Any, _: object, parameters: Any, extra: None) -> int:
        dims = (ctypes.c_uint * 7).from_address(ctypes.addressof(config._obj))
        stream = c_void_p.from_address(ctypes.addressof(config._obj) + 32)
        code: int = launch(handle, *dims, stream, parameters, extra)
        return code

    return launch_ex
