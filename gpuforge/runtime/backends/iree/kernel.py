"""A function of an IREE module on a device, with the interface of kernels on a GPU."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...decide import absent
from ...signature import (
    FREED,
    HostArray,
    Owned,
    Uploads,
    given_value,
    host_array,
    launch_size,
    refusal,
    size_of,
    source_of,
    stream_handle,
    target_of,
)
from ...values import KINDS, Module, Reason, Refused
from .devices import failure, opened, refuse_fork

DECLARATION = "iree.abi.declaration"
LONGEST = 10_000  # characters of a declaration
SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_WHOLE = re.compile(r"sync func @(?P<name>[\w.$-]+)\((?P<inputs>.*)\) -> \((?P<outputs>.*)\)")
_ONE = re.compile(
    r"%\w+: (?:tensor<(?P<shape>(?:(?:\?|\d{1,15})x)*)(?P<element>\w+)>|(?P<number>\w+))"
    r"(?: \{iree\.abi\.output = (?P<output>\d{1,4}) : index\})?"
)


class Parameter(NamedTuple):
    """One parameter: a number, or a tensor with its `shape`, in which None is a size that the caller chooses.

    `element` is IREE's name of the type ("f32"). `output` is the number of the result that is written into the tensor,
    None if it is only read.
    """

    element: str
    shape: tuple[int | None, ...] | None
    output: int | None = None

    def sizes_of(self, size: int) -> tuple[int, ...] | None:
        """Return the sizes of a tensor of `size` bytes; None if they do not determine them."""
        assert self.shape is not None  # noqa: S101  a number has no sizes
        known = SIZES[self.element]
        for number in self.shape:
            known *= 1 if number is None else number
        unknown = self.shape.count(None)
        if unknown == 0:
            return tuple(n for n in self.shape if n is not None) if known == size else None
        if unknown > 1 or not known or size % known:
            return None
        return tuple(size // known if number is None else number for number in self.shape)

    def takes(self, sizes: tuple[int, ...]) -> bool:
        """Return whether a tensor of these sizes may be passed."""
        shape = self.shape or ()
        return len(shape) == len(sizes) and all(a is None or a == b for a, b in zip(shape, sizes))

    def __str__(self) -> str:
        """Return it in the form of IREE's compiler."""
        if self.shape is None:
            return self.element
        return f"tensor<{''.join('?x' if n is None else f'{n}x' for n in self.shape)}{self.element}>"


def parameters_of(name: str, declaration: str) -> tuple[Parameter, ...]:
    """Return a function's parameters; raises Refused for one that cannot be launched like a kernel.

    It can if it has only tensors and numbers, and writes each of its results into an argument.
    """
    whole = _WHOLE.fullmatch(declaration) if len(declaration) <= LONGEST else None
    if whole is None or whole["name"] != name:
        raise _refused(name, "it has no declaration of a synchronous function")
    parameters = tuple(_parameter(name, text) for text in _split(whole["inputs"]))
    results = [_parameter(name, text) for text in _split(whole["outputs"])]
    written = [parameter.output for parameter in parameters if parameter.output is not None]
    for number, result in enumerate(results):
        if number not in written:
            raise _refused(
                name,
                f"its result {number}, {result}, is written into no argument: give the argument "
                f"{{iree.abi.output = {number} : index}}",
            )
    return parameters


def _split(text: str) -> list[str]:
    return text.split(", ") if text else []


def _parameter(name: str, text: str) -> Parameter:
    found = _ONE.fullmatch(text)
    element = (found["element"] or found["number"]) if found else ""
    if found is None or element not in SIZES:
        raise _refused(name, f"{text} is neither a tensor nor a number of a known type")
    output = int(found["output"]) if found["output"] else None
    if found["element"] is None:
        return Parameter(element, None, output)
    shape = tuple(None if size == "?" else int(size) for size in found["shape"].split("x")[:-1])
    return Parameter(element, shape, output)


def _refused(name: str, problem: str) -> Refused:
    return Refused(Reason("not-a-kernel", {"kernel": name, "problem": problem}))


class IreeDevice:
    """One device of a driver of IREE, and the modules that were loaded for it."""

    def __init__(self, driver: str, device: Any, name: str) -> None:
        import iree.runtime as iree

        self.driver = driver
        self.name = name
        self.device = device
        self.instance = iree.VmInstance()
        self.lock = threading.Lock()  # a context runs one function at a time
        self._hal = iree.create_hal_module(self.instance, device)
        self._modules: dict[str, tuple[Any, Any]] = {}

    def module(self, sha256: str, data: bytes) -> tuple[Any, Any]:
        """Return a module and its context, made once for this device; raises DriverError."""
        import iree.runtime as iree

        with self.lock:
            if sha256 not in self._modules:
                try:
                    module = iree.VmModule.copy_buffer(self.instance, data)
                    context = iree.VmContext(self.instance, modules=[self._hal, module])
                except (RuntimeError, ValueError) as error:
                    raise self.failure("loading the module", error) from error
                self._modules[sha256] = module, context
            return self._modules[sha256]

    def copy(self, source: Any, target: Any) -> None:
        """Copy all of a buffer into another of the same size, and wait for it; raises DriverError."""
        import iree.runtime as iree

        try:
            semaphore = self.device.create_semaphore(0)
            done = iree.HalFence.create_at(semaphore, 1)
            self.device.queue_copy(
                source, target, wait_semaphores=iree.HalFence.create_at(semaphore, 0), signal_semaphores=done
            )
            done.wait()
        except (RuntimeError, ValueError) as error:
            raise self.failure("copying", error) from error

    def failure(self, call: str, error: Exception, kernel: str = "") -> Exception:
        """Return an error of IREE as a DriverError."""
        return failure(error, call, self.driver, self.name, kernel)


class IreeMemory(Owned):
    """Memory of a device of IREE; see `Memory`."""

    __slots__ = ("_buffer", "_iree_device", "size")

    def __init__(self, iree_device: IreeDevice, size: int) -> None:
        import iree.runtime as iree

        refuse_fork(iree_device.name)
        self.size = size_of("the memory's size", size)
        self._iree_device = iree_device
        try:
            self._buffer: Any = iree_device.device.allocator.allocate_buffer(
                iree.MemoryType.DEVICE_LOCAL, iree.BufferUsage.DEFAULT, max(self.size, 1)
            )
        except (RuntimeError, ValueError) as error:
            raise iree_device.failure("allocating", error) from error

    @property
    def buffer(self) -> Any:
        """Its buffer of IREE; raises ValueError after `free`, DriverError in a forked process."""
        refuse_fork(self._iree_device.name)
        if self._buffer is None:
            raise ValueError(FREED)
        return self._buffer

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy an array of the host, of `size` bytes in C's order; raises TypeError, ValueError, DriverError."""
        buffer, array = self.buffer, source_of(source, self.size)
        if not self.size:
            return
        allocator = self._iree_device.device.allocator
        try:
            staging = allocator.allocate_host_staging_buffer_copy(self._iree_device.device, array.bytes())
        except (RuntimeError, ValueError) as error:
            raise self._iree_device.failure("copying", error) from error
        self._iree_device.copy(staging, buffer)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Copy into an array of `size` bytes in C's order; raises TypeError, ValueError, DriverError."""
        import iree.runtime as iree

        buffer, array = self.buffer, target_of(target, self.size)
        if not self.size:
            return
        kind = iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE
        usage = iree.BufferUsage.TRANSFER_TARGET | iree.BufferUsage.MAPPING_SCOPED
        try:
            staging = self._iree_device.device.allocator.allocate_buffer(kind, usage, self.size)
        except (RuntimeError, ValueError) as error:
            raise self._iree_device.failure("copying", error) from error
        self._iree_device.copy(buffer, staging)
        array.bytes()[:] = memoryview(
            staging.map().asarray((self.size,), iree.HalElementType.map_to_dtype(iree.HalElementType.UINT_8))
        )

    def free(self) -> None:
        """Give the memory back to the device; more than once is harmless."""
        self._buffer = None


# IREE's types -> NumPy's types of the same bits; without a sign in IREE, both of NumPy's
_DTYPES = {
    "i1": ("b1",), "i8": ("i1", "u1"), "i16": ("i2", "u2"), "i32": ("i4", "u4"), "i64": ("i8", "u8"),
    "f16": ("f2",), "bf16": (), "f32": ("f4",), "f64": ("f8",),
}  # fmt: skip
_ELEMENTS = {
    "i1": "BOOL_8", "i8": "INT_8", "i16": "INT_16", "i32": "INT_32", "i64": "INT_64", "f16": "FLOAT_16",
    "bf16": "BFLOAT_16", "f32": "FLOAT_32", "f64": "FLOAT_64",
}  # fmt: skip


class _Tensor(NamedTuple):
    """An argument in device memory; `array` is where it is copied back to, None if it is not."""

    memory: IreeMemory
    sizes: tuple[int, ...]
    array: HostArray | None = None
    own: bool = False  # made for this launch


class IreeKernel(Uploads):
    """A function on a device of IREE. Safe to use from several threads.

    It does the whole work: grid, block, shared memory and stream are not passed. It has finished when `launch` returns.
    """

    backend = "iree"

    def __init__(self, name: str, iree_device: IreeDevice, module: Any, context: Any) -> None:
        function = module.lookup_function(name)
        if function is None:
            known = ", ".join(n for n in module.function_names if not n.startswith("__")) or "none"
            raise Refused(absent(name, f"the module has {known}"))
        self.name = name
        self.driver = iree_device.driver
        self.device = iree_device.name
        self._iree_device = iree_device
        self._context = context
        self._function = function
        self._parameters = parameters_of(name, str(function.reflection.get(DECLARATION, "")))

    def unload(self) -> None:
        """Let its device forget the module, which goes with its last function."""
        device = self._iree_device
        with device.lock:
            device._modules = {k: each for k, each in device._modules.items() if each[1] is not self._context}

    def memory(self, size: int) -> IreeMemory:
        """Allocate `size` bytes on the function's device, freed by a `with` statement; raises DriverError."""
        return IreeMemory(self._iree_device, size)

    def launch(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None,
        cooperative: bool = False, cluster: Any = None,
    ) -> None:  # fmt: skip
        """Call the function; it has finished when this returns.

        Arguments are as for `Kernel.launch`, with IREE's memory: an `IreeMemory`, whose size must match the tensor's,
        or an array of NumPy, which is copied to the device and, if the function writes into it, back. Raises TypeError,
        ValueError, DriverError.
        """
        import iree.runtime as iree

        refuse_fork(self.device)
        launch_size(grid, block, shared, cluster)
        stream_handle(stream)
        if len(arguments) != len(self._parameters):
            raise TypeError(
                f"the kernel has {len(self._parameters)} parameters, and {len(arguments)} arguments are given"
            )
        values = iree.VmVariantList(len(arguments))
        tensors: list[_Tensor] = []
        try:
            for number, (parameter, value) in enumerate(zip(self._parameters, arguments)):
                self._push(values, number, parameter, value, tensors)
            _refuse_overlap([tensor.array for tensor in tensors if tensor.array is not None])
            self._invoke(values)
            for tensor in tensors:
                if tensor.array is not None:
                    tensor.memory.read(tensor.array.value)
        finally:
            for tensor in tensors:
                if tensor.own:
                    tensor.memory.free()

    def bind(self, grid: Any, block: Any, *arguments: Any, **options: Any) -> Callable[[], None]:
        """Return a launch with these arguments and options that is repeated by calling it."""
        return lambda: self.launch(grid, block, *arguments, **options)

    def _invoke(self, values: Any) -> None:
        import iree.runtime as iree

        with self._iree_device.lock:
            try:
                self._context.invoke(self._function, values, iree.VmVariantList(1))
            except (RuntimeError, ValueError) as error:
                raise self._iree_device.failure("running a function", error, self.name) from error

    def _push(
        self, values: Any, number: int, parameter: Parameter, value: Any, tensors: list[_Tensor]
    ) -> None:
        import iree.runtime as iree

        if parameter.shape is None:
            found = _number(number, parameter, value)
            (values.push_float if isinstance(found, float) else values.push_int)(found)
            return
        tensor = self._tensor(number, parameter, value)
        tensors.append(tensor)
        element = getattr(iree.HalElementType, _ELEMENTS[parameter.element])
        values.push_ref(iree.HalBufferView(tensor.memory.buffer, list(tensor.sizes), element))

    def _tensor(self, number: int, parameter: Parameter, value: Any) -> _Tensor:
        """Return an argument as a tensor in device memory: IREE checks neither its type nor its size."""
        if isinstance(value, IreeMemory):
            sizes = parameter.sizes_of(value.size)
            if value.dtype and value.dtype[1:] not in _DTYPES[parameter.element]:
                raise TypeError(f"argument {number}: a copy of {value.dtype} cannot be passed as {parameter}")
            if sizes is None:
                raise TypeError(f"argument {number}: {value.size} bytes do not give the sizes of {parameter}")
            return _Tensor(value, sizes)
        try:
            array = host_array(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"argument {number}: {error}") from error.__cause__
        if array is None:
            raise TypeError(f"argument {number}: {refusal(value)}")
        if array.dtype[1:] not in _DTYPES[parameter.element]:
            raise TypeError(f"argument {number}: {array.name} cannot be passed as {parameter}")
        if not parameter.takes(array.shape):
            shape = "x".join(map(str, array.shape))
            raise TypeError(f"argument {number}: an array of {shape} cannot be passed as {parameter}")
        if not array.in_c_order:
            raise TypeError(f"argument {number}: a contiguous array is expected")
        if parameter.output is not None and not array.writable:
            raise ValueError(f"argument {number}: the function writes into it, and it is read-only")
        written = array if parameter.output is not None else None
        return _Tensor(self.upload(value), array.shape, written, own=True)


def _number(number: int, parameter: Parameter, value: Any) -> float | int:
    """Return a number in the form of IREE's virtual machine, where integers have a sign."""
    try:
        described = given_value(value)
    except TypeError as error:
        raise TypeError(f"argument {number}: {error}") from None
    if described is None:
        raise TypeError(f"argument {number}: {refusal(value)}")
    kind = described.dtype[1:]
    found = value.value if isinstance(value, ctypes._SimpleCData) else getattr(value, "item", lambda: None)()
    if kind not in _DTYPES[parameter.element] or not isinstance(found, (int, float)):
        raise TypeError(f"argument {number}: {described.type} cannot be passed as {parameter}")
    if isinstance(found, float):
        return found
    bits = 8 * SIZES[parameter.element]
    return int(found) - (1 << bits) if kind[0] == "u" and found >= 1 << (bits - 1) else int(found)


def _refuse_overlap(written: Sequence[HostArray]) -> None:
    places = sorted((array.address, array.size) for array in written)
    for (start, size), (following, _) in zip(places, places[1:]):  # noqa: RUF007  Python 3.9
        if start + size > following:
            raise ValueError("two arrays that the function writes into overlap: pass a copy of one")


_lock = threading.Lock()
_devices: dict[tuple[str, int], IreeDevice] = {}


def load(name: str, module: Module, kind: str, device: int, context: Any) -> IreeKernel:
    """Return a function of a module on a device that `devices_for` has found for this kind of image.

    Raises Refused for a function that cannot be launched like a kernel, and for a caller's own `context`, as IREE uses
    the primary one. Raises DriverError for errors of IREE's runtime.
    """
    on_cpu = KINDS[kind].built_for == "CPU"
    if context is not None and not on_cpu:
        raise Refused(Reason("own-context"))
    iree_device = _device(KINDS[kind].iree_driver, 0 if on_cpu else device)
    loaded, running = iree_device.module(module.sha256 or module.file, module.read())
    return IreeKernel(name, iree_device, loaded, running)


def release(device: int | None, context: Any) -> None:
    """Unload the modules of all devices, or of those with a number."""
    for (_, number), each in list(_devices.items()):
        if context is None and device in {None, number}:
            with each.lock:
                each._modules = {}


def _device(driver: str, number: int) -> IreeDevice:
    with _lock:
        iree_device = _devices.get((driver, number))
        if iree_device is None:
            found, info = opened(driver, number)
            name = info["name"]
            try:
                device = found.create_device(info["device_id"])
            except (RuntimeError, ValueError) as error:
                raise failure(error, "opening the device", driver, name) from error
            iree_device = _devices[driver, number] = IreeDevice(driver, device, name)
        return iree_device
