"""A kernel of OpenCL in a context of pyopencl, with the interface of CUDA's kernels."""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ...cache import CacheKey
from ...host_access import pointee_of, reads_only, refuse_read_only, written
from ...process import DriverError
from ...signature import (
    FREED,
    POINTER,
    Entry,
    Given,
    HostArray,
    Owned,
    Parameter,
    Uploads,
    check_count,
    given_address,
    given_array,
    given_value,
    host_array,
    launch_size,
    limits,
    misfit,
    outside,
    refusal,
    refuse_gaps,
    size_of,
    source_of,
    spelled,
    target_of,
    whole,
)
from ...values import Reason
from .devices import name_of

# OpenCL's statuses: https://registry.khronos.org/OpenCL/specs/3.0-unified/html/OpenCL_API.html#error_codes
_OWN_CONTEXT = (
    "pass arrays and queues of the kernel's own context: kernel.memory(size), or `context` of the look-up"
)
_SMALLER = "use smaller blocks, less local memory, or fewer arguments in private memory"
_CHECK_INDICES = "check the indices of the kernel; PoCL on the CPU shows such faults under valgrind"
_FULL = "free arrays on the device, or compute in parts"

# status: its meaning, what to do
_ABOUT = {
    -2: ("the device is not available", "end the programs that use it, or choose another device"),
    -4: ("the device has no memory left for it", _FULL),
    -5: ("the device has no resources left, or a kernel used memory that is not its own", _CHECK_INDICES),
    -6: ("the host has no memory left", "free memory of the process"),
    -11: ("the program was not compiled", "read the log of the driver's compiler"),
    -14: ("a kernel or copy that it waits for has failed", _CHECK_INDICES),
    -30: ("an argument of the call has no valid value", ""),
    -34: ("the parts belong to several contexts", _OWN_CONTEXT),
    -36: ("the queue cannot be used, as after a fault of a kernel", "look the kernel up in a new context"),
    -38: ("the memory is gone, or of another context", _OWN_CONTEXT),
    -42: ("the compiled code is not for this device and driver", "python -m PACKAGE._gpuforge cache clear"),
    -46: ("the program has no kernel of that name", "declare it __kernel, and check the name"),
    -52: ("an argument of the kernel is not set", ""),
    -54: ("the block does not fit the kernel on this device", _SMALLER),
    -55: ("the block has more items along an axis than the device takes", _SMALLER),
    -61: ("no buffer of this device can have that size", _FULL),
    -9999: ("a kernel used memory that is not its own", _CHECK_INDICES),  # of NVIDIA's driver
}
_OF_EARLIER_WORK = {-5, -14, -36, -9999}  # of a copy: a kernel that was queued before has failed


def failure(
    error: Any, call: str, device: str, kernel: tuple[str, str] = ("", ""), *, details: str = ""
) -> DriverError:
    """Return an error of pyopencl as a driver's error; `kernel` is the name and the source of the one that failed."""
    import pyopencl as cl

    words = getattr(error.what, "what", "")  # of a record of pyopencl
    meaning, advice = _ABOUT.get(error.code, ("OpenCL gives no details", ""))
    text = str(words() if callable(words) else words).strip() or meaning
    name = cl.status_code.to_string(error.code)
    return DriverError(
        error.routine or call, error.code, name, text, details, advice,
        kernel=kernel[0], source=kernel[1], device=device,
    )  # fmt: skip


_lock = threading.Lock()
_contexts: dict[tuple[str, int], OpenClContext] = {}  # by a device, or a caller's context


class OpenClContext:
    """A context for one device, its queue, and the programs that were built for it."""

    def __init__(self, context: Any) -> None:
        import pyopencl as cl

        self.context = context
        self.device = context.devices[0]
        self.name = name_of(self.device)
        try:
            self.queue = cl.CommandQueue(context, self.device)
        except cl.Error as error:
            raise failure(error, "clCreateCommandQueue", self.name) from error
        self._pid = os.getpid()
        self.launched = ("", "")  # name and source of the last kernel, whose fault shows in a later call
        self.numbers: set[int] = set()  # the numbers by which its device was looked up
        self._lock = threading.Lock()
        self._programs: dict[str, Any] = {}

    def program(self, key: CacheKey, build: Callable[[CacheKey], Any]) -> Any:
        with self._lock:
            if key.digest not in self._programs:
                self._programs[key.digest] = build(key)
            return self._programs[key.digest]

    def unload(self) -> None:
        with self._lock:
            self._programs = {}

    def queue_of(self, stream: Any) -> Any:
        """Return the queue of a launch or copy, None for the context's own; raises TypeError, DriverError."""
        import pyopencl as cl

        if self._pid != os.getpid():  # the implementation's threads are the parent's: it would wait for ever
            raise DriverError("fork", -36, "INVALID_COMMAND_QUEUE", str(Reason("forked")), device=self.name)
        if stream is not None and not isinstance(stream, cl.CommandQueue):
            raise TypeError(f"a stream of OpenCL is a pyopencl.CommandQueue, not {type(stream).__name__}")
        return self.queue if stream is None else stream


def context_of(device: Any, number: int = 0) -> OpenClContext:
    """Return the context of a device of pyopencl, `number` in a look-up, made once in a process; raises DriverError."""
    import pyopencl as cl

    with _lock:
        key = "device", device.int_ptr
        if key not in _contexts:
            try:
                _contexts[key] = OpenClContext(cl.Context([device]))
            except cl.Error as error:
                raise failure(error, "clCreateContext", name_of(device)) from error
        _contexts[key].numbers.add(number)
        return _contexts[key]


def given_context(context: Any) -> OpenClContext:
    with _lock:
        key = "context", context.int_ptr
        if key not in _contexts:
            _contexts[key] = OpenClContext(context)
        return _contexts[key]


def release(device: int | None, context: Any) -> None:
    """Unload the programs of all contexts, of those of a device's number, or of a caller's context, which is let go.

    A kernel in use keeps its program.
    """
    with _lock:
        for key, each in list(_contexts.items()):
            own = key[0] == "device"
            if context is not None and (own or key[1] != context.int_ptr):
                continue
            if device is not None and device not in each.numbers:
                continue
            each.unload()
            if not own:
                del _contexts[key]


class OpenClMemory(Owned):
    """Memory of an OpenCL device; see `Memory`."""

    __slots__ = ("_buffer", "_context", "events", "size")

    def __init__(self, context: OpenClContext, size: int, kernel: tuple[str, str] = ("", "")) -> None:
        import pyopencl as cl

        self.size = size_of("the memory's size", size)
        self._context = context
        self.events: list[Any] = []  # of the last launch with it, as arrays of pyopencl have them
        try:
            self._buffer: Any = cl.Buffer(context.context, cl.mem_flags.READ_WRITE, max(self.size, 1))
        except cl.Error as error:
            most = context.device.max_mem_alloc_size
            details = f"{self.size} bytes are requested, and a buffer there can have {most}"
            raise failure(error, "clCreateBuffer", context.name, kernel, details=details) from error

    @property
    def buffer(self) -> Any:
        """Its buffer of pyopencl; raises ValueError after `free`."""
        buffer = self._buffer
        if buffer is None:
            raise ValueError(FREED)
        return buffer

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy an array in the CPU's memory, of exactly `size` bytes in C's order.

        Raises TypeError, ValueError, DriverError.
        """
        self.copy_in(source_of(source, self.size), stream)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Wait for the kernels queued so far, and copy into an array of `size` bytes in C's order that can be written.

        Raises TypeError, ValueError, DriverError, also for a fault of an earlier kernel.
        """
        self.copy_out(target_of(target, self.size), stream)

    def add_event(self, event: Any) -> None:
        self.events = [event]

    def copy_in(self, array: HostArray, stream: Any = None) -> None:
        self._copy(stream, self.buffer, array)

    def copy_out(self, array: HostArray, stream: Any = None) -> None:
        self._copy(stream, array, self.buffer)

    def free(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.release()

    def _copy(self, stream: Any, target: Any, source: Any) -> None:
        import pyopencl as cl

        if not self.size:
            return
        target, source = (each.bytes() if isinstance(each, HostArray) else each for each in (target, source))
        queue = self._context.queue_of(stream)
        try:
            cl.enqueue_copy(queue, target, source, is_blocking=True, wait_for=self.events)
        except cl.Error as error:
            kernel = self._context.launched if error.code in _OF_EARLIER_WORK else ("", "")
            raise failure(error, "clEnqueueCopyBuffer", self._context.name, kernel) from error


class _Copy(NamedTuple):
    number: int  # of the argument
    array: HostArray
    memory: OpenClMemory
    written: bool  # by the kernel, as far as is known

    @property
    def place(self) -> tuple[int, int]:
        return self.array.address, self.array.address + self.array.size


class Copies:
    """The arrays of the host among a launch's arguments, each in device memory while the kernel runs.

    Arguments with the same bytes share one copy, as on the host. With another overlap, the copies of an array that is
    written would overwrite each other: it is refused.
    """

    def __init__(self, context: OpenClContext, kernel: tuple[str, str] = ("", "")) -> None:
        self._context = context
        self._kernel = kernel
        self._copies: list[_Copy] = []

    def add(self, number: int, array: HostArray, *, written: bool) -> OpenClMemory:
        place = array.address, array.address + array.size
        for at, other in enumerate(self._copies):
            if array.size and other.place == place:
                if written:
                    self._copies[at] = other._replace(array=array, written=True)
                self._refuse_overlap(number, self._copies[at])
                return other.memory
        new = _Copy(number, array, OpenClMemory(self._context, array.size, self._kernel), written)
        try:
            self._refuse_overlap(number, new)
            new.memory.copy_in(array)
        except BaseException:
            new.memory.free()
            raise
        self._copies.append(new)
        return new.memory

    def read_back(self, queue: Any) -> None:
        for copy in self._copies:
            if copy.written:
                copy.memory.copy_out(copy.array, queue)

    def free(self) -> None:
        for copy in self._copies:
            copy.memory.free()

    def _refuse_overlap(self, number: int, new: _Copy) -> None:
        for other in self._copies:
            (start, end), (first, last) = new.place, other.place
            same = new.place == other.place
            if max(start, first) < min(end, last) and not same and (other.written or new.written):
                raise ValueError(
                    f"arguments {other.number} and {number} overlap in memory, and one of them can be written: "
                    "pass a copy of one, or make both read-only"
                )

    def __bool__(self) -> bool:
        return bool(self._copies)


_SIZES = {"char": 1, "short": 2, "int": 4, "long": 8, "half": 2, "float": 4, "double": 8}
_UNKNOWN = Parameter("", 0)
_LOCAL = "local "
_TYPE = re.compile(r"(u?)(char|short|int|long|half|float|double)(2|3|4|8|16)?")


class Limits(NamedTuple):
    """The most that a device takes: of each axis of a block, of the threads in it, and in the whole grid."""

    owner: str
    block: tuple[int, ...]
    threads: int
    whole: int

    def check(self, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        threads = math.prod(block)
        every = threads * math.prod(grid)
        facts = [(f"its axis {axis} is {n}", n, most) for axis, n, most in zip("xyz", block, self.block)]
        facts += [(f"it has {threads} threads", threads, self.threads)]
        facts += [(f"with grid {grid} there are {every} threads", every, self.whole)]
        for what, number, most in facts:
            if number > most:
                raise ValueError(f"block {block}: {what}, and the most of {self.owner} is {most}")


class OpenClKernel(Uploads):
    """A kernel in a context; `source` is the file that it was compiled from. Safe to use from several threads."""

    backend = "opencl"

    def __init__(self, name: str, source: str, context: OpenClContext, program: Any) -> None:
        import pyopencl as cl

        self.name = name
        self.source = source
        self._context = context
        self._program = program
        self._lock = threading.Lock()  # arguments are set one by one
        try:
            self._kernel = cl.Kernel(program, name)
            parameters = tuple(_parameter(self._kernel, number) for number in range(self._kernel.num_args))
        except cl.Error as error:
            raise failure(error, "clCreateKernel", context.name, (name, source)) from error
        self._entry = Entry(name, name, parameters)
        device = context.device
        most = tuple(device.max_work_item_sizes), device.max_work_group_size, (1 << device.address_bits) - 1
        self._limits = Limits(context.name, *most)

    @property
    def device(self) -> str:
        """The device's name and its driver's version, to which a measurement belongs."""
        return f"{self._context.name}, driver {self._context.device.driver_version}"

    def unload(self) -> None:
        """Let its context forget the program, which goes with its last kernel."""
        context = self._context
        with context._lock:
            context._programs = {
                k: each for k, each in context._programs.items() if each is not self._program
            }

    def memory(self, size: int) -> OpenClMemory:
        """Allocate `size` bytes on the kernel's device, freed by a `with` statement; raises DriverError."""
        return OpenClMemory(self._context, size)

    def launch(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None,
        cooperative: bool = False, cluster: Any = None,
    ) -> None:  # fmt: skip
        """Queue the kernel over `grid` work-groups of `block` work-items, each a number or up to three.

        Arguments are as for `Kernel.launch`, with OpenCL's memory: an `OpenClMemory`, an array or buffer of pyopencl,
        its LocalMemory. An array of the host is copied to the device and, unless the kernel's parameter is const, back
        when the kernel has finished. `stream` is a queue of pyopencl: without it, that of the first array of pyopencl,
        else the context's own. The kernel follows the events of all its arrays, and they follow it, whatever their
        queues are. Raises TypeError, ValueError (also for overlapping writable arrays), DriverError.
        """
        import pyopencl as cl

        groups, items, local = launch_size(grid, block, shared, cluster)
        if cooperative or cluster is not None:
            raise ValueError("OpenCL has neither cooperative launches nor clusters")
        self._limits.check(groups, items)
        if local:
            raise ValueError(
                "a kernel of OpenCL takes its local memory as an argument: pyopencl.LocalMemory(size)"
            )
        # `OpenClMemory`, arrays of pyopencl
        ordered = [each for each in arguments if hasattr(each, "add_event")]
        own = next((each.queue for each in ordered if getattr(each, "queue", None) is not None), None)
        queue = self._context.queue_of(own if stream is None else stream)
        copies = Copies(self._context, (self.name, self.source))
        try:
            check_count(self._entry, len(arguments))
            values = [
                self._value(number, parameter, value, copies)
                for number, (parameter, value) in enumerate(zip(self._entry.parameters or (), arguments))
            ]
            self._enqueue(queue, groups, items, values, arguments, ordered)
            copies.read_back(queue)
            if copies:
                queue.finish()
        except cl.Error as error:
            kernel = self.name, self.source
            raise failure(error, "clEnqueueNDRangeKernel", self._context.name, kernel) from error
        finally:
            copies.free()

    def bind(self, grid: Any, block: Any, *arguments: Any, **options: Any) -> Callable[[], None]:
        """Return a launch with these arguments and options that is repeated by calling it."""
        return lambda: self.launch(grid, block, *arguments, **options)

    def _enqueue(
        self, queue: Any, grid: Any, block: Any, values: list[Any], given: tuple[Any, ...], ordered: list[Any]
    ) -> None:
        import pyopencl as cl

        size = tuple(groups * items for groups, items in zip(grid, block))
        with self._lock:
            for number, value in enumerate(values):
                try:
                    self._kernel.set_arg(number, value)
                except cl.Error as error:
                    kind = type(given[number]).__name__
                    raise TypeError(
                        f"argument {number}: {kind} does not fit the kernel's parameter"
                    ) from error
            self._context.launched = (self.name, self.source)
            before = [event for each in ordered for event in each.events]
            event = cl.enqueue_nd_range_kernel(queue, self._kernel, size, block, wait_for=before)
        for each in ordered:
            each.add_event(event)

    def _value(self, number: int, parameter: Parameter, value: Any, copies: Copies) -> Any:
        """Return an argument in pyopencl's form; an array of the host is copied to the device.

        Raises TypeError, ValueError, DriverError.
        """
        import pyopencl as cl

        try:
            passed, given, array = _passed(value)
            if given is None and array is None:
                raise TypeError(refusal(value, spelled(parameter, value)))
            writes = parameter.type and not reads_only(parameter)
            if writes and isinstance(passed, cl.Buffer) and passed.flags & cl.mem_flags.READ_ONLY:
                raise ValueError(f"the buffer is READ_ONLY, {written(parameter)}")
            if array is not None:
                pointee_of(array)
                refuse_read_only(array, parameter)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"argument {number}: {error}") from error.__cause__
        given = given or given_array(type(value), array.dtype if array else "")
        role, expected = _role(value, given), _role_of(parameter)
        judged = parameter.size and {role, expected} <= {"memory", "value"}
        if expected and role != expected and not judged:
            hint = ": pass pyopencl.LocalMemory(size)" if expected == "local" else ""
            raise TypeError(
                f"argument {number}: {given.type} is given, and the parameter is {parameter.type}{hint}"
            )
        self._judge(number, parameter, given, value)
        if array is None:
            return passed
        return copies.add(number, array, written=array.writable and not reads_only(parameter)).buffer

    def _judge(self, number: int, parameter: Parameter, given: Given, value: Any) -> None:
        problem = misfit(parameter, number, given)
        if problem:
            raise TypeError(f"{problem}. The kernel is {self._entry.signature}")
        limit = limits(parameter, given.dtype) if given.kind == "scalar" else None
        if limit is not None:
            found = whole(value)
            if not limit[0] <= found <= limit[1]:
                raise TypeError(outside(parameter, number, found))


def _passed(value: Any) -> tuple[Any, Given | None, HostArray | None]:
    """Return an argument in pyopencl's form and its description, or an array of the host."""
    kind = type(value)
    if isinstance(value, OpenClMemory):
        return value.buffer, given_array(kind, value.dtype), None
    if kind.__module__.partition(".")[0] == "pyopencl":
        if not hasattr(value, "base_data"):
            return value, _of_pyopencl(value), None
        refuse_gaps(value, value.shape, value.strides, value.dtype.itemsize)
        return value.data, given_array(kind, value.dtype.str), None
    given = given_value(value)
    if given is None:
        return None, None, host_array(value)
    if given.kind in {"address", "array"}:
        if ctypes.cast(value, ctypes.c_void_p).value:
            raise TypeError(
                f"{given.type} is an address, which a kernel of OpenCL cannot have: pass an array"
            )
        return None, given_address(kind), None
    return (
        bytes(value) if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union)) else value,
        given,
        None,
    )


def _of_pyopencl(value: Any) -> Given:
    """Return the description of an object of pyopencl; raises TypeError for one that no kernel can have."""
    import pyopencl as cl

    if not isinstance(value, (cl.MemoryObjectHolder, cl.SVMPointer, cl.LocalMemory, cl.Sampler)):
        raise TypeError(refusal(value))
    return given_array(type(value), "")


def _role(value: Any, given: Given) -> str:
    """Return what an argument is for OpenCL: it takes one for the other, and reads a sampler as memory."""
    role = {"LocalMemory": "local", "Image": "image", "Sampler": "sampler"}.get(type(value).__name__)
    return role or ("value" if given.kind in {"scalar", "struct"} else "memory")


def _role_of(parameter: Parameter) -> str:
    """Return what a parameter takes, "" if that is not known."""
    if parameter == _UNKNOWN:
        return ""
    if parameter.type.endswith("*"):
        return "local" if parameter.type.startswith(_LOCAL) else "memory"
    if parameter.type.startswith("image"):
        return "image"
    return "sampler" if parameter.type == "sampler_t" else "value"


def _parameter(kernel: Any, number: int) -> Parameter:
    """Return a kernel's parameter with C++'s type; its size is 0 if arguments are not compared with it."""
    import pyopencl as cl

    def ask(fact: str) -> Any:
        return kernel.get_arg_info(number, getattr(cl.kernel_arg_info, fact))

    try:
        name, space, qualifiers = ask("TYPE_NAME"), ask("ADDRESS_QUALIFIER"), ask("TYPE_QUALIFIER")
    except cl.Error:  # code that was compiled without -cl-kernel-arg-info
        return _UNKNOWN
    spaces = cl.kernel_arg_address_qualifier
    element = name.replace("unsigned ", "u").rstrip("*").strip()
    found = _TYPE.fullmatch(element)
    if found:
        lanes = int(found[3] or 1)
        plain = f"{'unsigned ' if found[1] else ''}{found[2]}" if found[2] != "half" else "__half"
        element = plain if lanes not in {2, 3, 4} or found[2] == "half" else element
    if name.endswith("*"):
        is_const = qualifiers & cl.kernel_arg_type_qualifier.CONST or space == spaces.CONSTANT
        text = f"{'const ' if is_const else ''}{element} *"
        return Parameter(f"{_LOCAL}{text}", 0) if space == spaces.LOCAL else Parameter(text, POINTER)
    if not found:
        return Parameter(element, 0)
    return Parameter(element if lanes == 1 else "", _SIZES[found[2]] * (4 if lanes == 3 else lanes))
