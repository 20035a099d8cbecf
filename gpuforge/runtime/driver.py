"""The NVIDIA driver, opened with dlopen at its first use; its absence is a result, not an error.

Functions, types and codes: https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, NamedTuple

from .codes import ADVICE
from .errors import DriverError
from .library import Attempt, bind, open_library, patience
from .process import shared
from .reason import Reason, dotted
from .tables import DRIVER, DRIVER_NEEDED

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_LOG_BUFFER, _LOG_BUFFER_SIZE = 5, 6  # CUjit_option: CU_JIT_ERROR_LOG_BUFFER and its size in bytes
_LOG_BYTES = 8192
_INVALID_VALUE = 1  # CUresult: also for a parameter beyond the last


class NoDriver(NamedTuple):
    """The driver cannot be used; `reason` is the reason."""

    reason: Reason


class Device(NamedTuple):
    """One GPU by the driver's number; `capability` is its compute capability, (9, 0) for an H200."""

    ordinal: int
    name: str
    capability: tuple[int, int]


class DriverModule:
    """A loaded module: a CUlibrary, of no context, or a CUmodule, of the context it was loaded in."""

    __slots__ = ("_kept", "handle", "log")

    def __init__(self, handle: int, log: Any, kept: Any) -> None:
        self.handle = handle
        self.log = log
        self._kept = kept  # the driver writes into the log, and reads options, when it compiles later

    def messages(self) -> str:
        """Return the log of the driver's compiler as text."""
        return str(self.log.value.decode(errors="replace").strip())


class Driver:
    """An initialised driver of this process: its version, its devices, and its functions as attributes of `c`."""

    def __init__(self, library: ctypes.CDLL, files: tuple[str, ...], version: tuple[int, int]) -> None:
        self.c: Any = library
        self.files = files
        self.version = version
        self.pid = os.getpid()
        self.devices = tuple(self._device(ordinal) for ordinal in range(self._count()))

    @property
    def has_libraries(self) -> bool:
        """Whether modules can be loaded without a context (CUlibrary, from CUDA 12.0 on)."""
        return bool(self.c.cuLibraryLoadData and self.c.cuLibraryGetKernel and self.c.cuKernelGetFunction)

    def call(self, name: str, *args: Any) -> None:
        """Call one driver function; raises DriverError, with the driver's own message, unless it returns 0."""
        code = getattr(self.c, name)(*args)
        if code:
            raise self.error(name, code)

    def quick(self, name: str, *, holds_gil: bool = False) -> Any:
        """Return a function whose arguments must be ready to pass (`byref`, `from_param`), None if it is absent.

        Without argument types a call takes half the time. With `holds_gil` other threads wait for it, for functions
        that return at once.
        """
        if getattr(self.c, name) is None:
            return None
        return ctypes.PyDLL(None, handle=self.c._handle)[name] if holds_gil else self.c[name]

    def device(self, ordinal: int) -> int:
        """Return the CUdevice handle of a device number."""
        handle = c_int()
        self.call("cuDeviceGet", ctypes.byref(handle), ordinal)
        return handle.value

    def ordinal(self, device: int) -> int:
        """Return the device number of a CUdevice handle."""
        return next((n for n in range(len(self.devices)) if self.device(n) == device), 0)

    def current_context(self) -> int:
        """Return the handle of the context that is current in the calling thread, 0 for none."""
        handle = c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(handle))
        return handle.value or 0

    def context_id(self, context: int) -> int:
        """Return a number that no other context of this process ever has; the handle itself before CUDA 12.0."""
        number = c_uint64()
        if self.c.cuCtxGetId is None or self.c.cuCtxGetId(context, ctypes.byref(number)):
            return context
        return -1 - number.value

    def load(self, data: bytes) -> DriverModule:
        """Load a fatbin, cubin or PTX: as a CUlibrary, or into the current context if the driver is older.

        Raises DriverError with the log of the driver's compiler.
        """
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_LOG_BUFFER, _LOG_BUFFER_SIZE)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        handle = c_void_p()
        code = ctypes.create_string_buffer(data)  # adds the NUL that PTX text must end with
        if self.has_libraries:
            name = "cuLibraryLoadData"
            failed = self.c.cuLibraryLoadData(ctypes.byref(handle), code, options, values, 2, None, None, 0)
        else:
            name = "cuModuleLoadDataEx"
            failed = self.c.cuModuleLoadDataEx(ctypes.byref(handle), code, 2, options, values)
        module = DriverModule(handle.value or 0, log, (options, values))
        if failed:
            raise self.error(name, failed, module.messages())
        return module

    def unload(self, module: DriverModule) -> None:
        """Unload a module from `load`; its kernels must not be used any more. Raises DriverError."""
        self.call("cuLibraryUnload" if self.has_libraries else "cuModuleUnload", module.handle)

    def function(self, module: DriverModule, name: str) -> int:
        """Return the CUfunction of a kernel in the current context, compiled and loaded; raises DriverError."""
        found = c_void_p()
        if not self.has_libraries:
            self.call("cuModuleGetFunction", ctypes.byref(found), module.handle, name.encode())
            return found.value or 0
        kernel = c_void_p()
        for step, args in (
            ("cuLibraryGetKernel", (ctypes.byref(kernel), module.handle, name.encode())),
            ("cuKernelGetFunction", (ctypes.byref(found), kernel)),
        ):
            failed = getattr(self.c, step)(*args)
            if failed:
                raise self.error(step, failed, module.messages())
        return found.value or 0

    def variable(self, module: DriverModule, name: str) -> tuple[int, int]:
        """Return the address and size in bytes of a `__device__` or `__constant__` variable in the current context.

        Raises DriverError.
        """
        address, size = c_uint64(), c_size_t()
        get = "cuLibraryGetGlobal" if self.has_libraries else "cuModuleGetGlobal_v2"
        self.call(get, ctypes.byref(address), ctypes.byref(size), module.handle, name.encode())
        return address.value, size.value

    def parameter_sizes(self, function: int) -> tuple[int, ...] | None:
        """Return the size of each parameter of a kernel of the current context in bytes, for one without an index.

        None if the driver cannot tell: before CUDA 12.4, or if its last result is not the end of the list. The last
        call fails, which compute-sanitizer reports.
        """
        if self.c.cuFuncGetParamInfo is None:
            return None
        offset, size = c_size_t(), c_size_t()
        sizes: list[int] = []
        while True:
            code = self.c.cuFuncGetParamInfo(function, len(sizes), ctypes.byref(offset), ctypes.byref(size))
            if code:
                return tuple(sizes) if code == _INVALID_VALUE else None
            sizes.append(size.value)

    def attribute(self, function: int, attribute: int) -> int:
        """Return an attribute of a kernel, CUfunction_attribute; raises DriverError."""
        value = c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
        return value.value

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        """Return an attribute of a device, CUdevice_attribute; raises DriverError."""
        value = c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, self.device(ordinal))
        return value.value

    def pointer(self, address: int, attribute: int) -> int | None:
        """Return a fact about an address as the current context sees it, CUpointer_attribute; None if it has none."""
        value = c_uint64()
        failed = self.c.cuPointerGetAttribute(ctypes.byref(value), attribute, address)
        return None if failed else value.value

    def error(self, call: str, code: int, log: str = "", kernel: str = "") -> DriverError:
        """Return the exception for a driver function's result that is not 0."""
        return _error(self.c, call, code, log, kernel)

    def _count(self) -> int:
        value = c_int()
        self.call("cuDeviceGetCount", ctypes.byref(value))
        return value.value

    def _device(self, ordinal: int) -> Device:
        device = self.device(ordinal)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), device)
        major, minor = (self.device_attribute(ordinal, a) for a in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR))
        return Device(ordinal, name.value.decode(errors="replace"), (major, minor))


_drivers: dict[tuple[str, ...], Driver] = {}


def open_driver(files: tuple[str, ...] = ()) -> Driver | NoDriver:
    """Open and initialise the driver, and read its devices; raises nothing and does not hang.

    A driver that opened is kept for the life of the process. A failure is not: the next call tries again. One that does
    not respond in time is not opened again, but used when it has responded. Without `files`, the usual names are tried.
    """
    driver = _drivers.get(files)
    if driver is None:
        opened = _opened(files)
        if isinstance(opened, Reason):
            return NoDriver(opened)
        driver = _drivers.setdefault(files, opened)
    if driver.pid != os.getpid():
        return NoDriver(Reason("forked"))
    return driver


def opened_driver(files: tuple[str, ...] = ()) -> Driver | None:
    """Return the driver if it was opened in this process; it is never opened here."""
    driver = _drivers.get(files)
    return driver if driver and driver.pid == os.getpid() else None


def begin_driver(files: tuple[str, ...] = ()) -> None:
    """Open the driver in the background, which takes 0.1 s or more; `open_driver` waits for the rest."""
    if files not in _drivers:
        _begun(files)


def _begun(files: tuple[str, ...]) -> Attempt:
    """Return the process's attempt to start a driver, which another copy of this runtime may have begun."""
    meeting = shared()
    with meeting.lock:
        attempt = Attempt(DRIVER, lambda: _start(files), files, record=meeting.drivers.get(files))
        attempt.record.setdefault("pid", os.getpid())
        meeting.drivers[files] = attempt.record
    return attempt


def _opened(files: tuple[str, ...]) -> Driver | Reason:
    attempt = _begun(files)
    if attempt.record["pid"] != os.getpid():
        return Reason("forked")
    outcome = attempt.wait(patience(os.environ))
    if isinstance(outcome, Reason):
        return outcome
    first, second = outcome
    if isinstance(first, str):
        shared().drivers.pop(files, None)
        return Reason(first, second)
    library = ctypes.CDLL(second, handle=first)
    try:
        return bind(library, second, DRIVER) or Driver(library, files, _version(library) or (0, 0))
    except DriverError as error:
        return Reason("driver-error", {"message": str(error), "call": error.call, "code": error.code})


def _start(files: tuple[str, ...]) -> tuple[Any, ...]:
    """Open and initialise a driver; return what `process` has for its outcome."""
    opened = open_library(DRIVER, files)
    if isinstance(opened, Reason):
        return tuple(opened)
    library, file = opened
    version = _version(library)
    if version is not None and version < DRIVER_NEEDED:
        facts = {"library": file, "what": "CUDA", "found": dotted(version), "needed": dotted(DRIVER_NEEDED)}
        return "library-too-old", facts
    problem = bind(library, file, DRIVER)
    if problem is not None:
        return tuple(problem)
    failed = library.cuInit(0)
    if failed:
        error = _error(library, "cuInit", failed)
        return "driver-error", {"message": str(error), "call": error.call, "code": error.code}
    return library._handle, file


def _error(library: Any, call: str, code: int, log: str = "", kernel: str = "") -> DriverError:
    known, advice = ADVICE.get(code, ("unknown error", ""))
    words = []
    for function, unknown in (("cuGetErrorName", known), ("cuGetErrorString", "no description")):
        text = c_char_p()
        failed = getattr(library, function)(code, ctypes.byref(text))
        words.append(unknown if failed or not text.value else text.value.decode(errors="replace"))
    return DriverError(call, code, words[0], words[1], log, advice, kernel=kernel)


def _version(library: ctypes.CDLL) -> tuple[int, int] | None:
    """Return the newest CUDA version that the driver supports, before any other call."""
    function = getattr(library, "cuDriverGetVersion", None)
    value = c_int()
    if function is None or function(ctypes.byref(value)) or not value.value:
        return None
    return value.value // 1000, value.value % 1000 // 10
