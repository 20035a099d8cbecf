"""The NVIDIA driver, opened with dlopen at its first use, and the other facts about this machine.

What is absent is a result, not an error; looking for it never raises.

Functions, types and codes: https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from .process import DriverError, printable, shared
from .values import Reason, dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cpu import Cpu

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_LOG_BUFFER, _LOG_BUFFER_SIZE = 5, 6  # CUjit_option: CU_JIT_ERROR_LOG_BUFFER and its size in bytes
_LOG_BYTES = 8192
_MOST_DEVICES = 4096  # a driver that counts more is broken
SECONDS = "GPUFORGE_DRIVER_TIMEOUT"  # how long a driver may take to start
LONGEST_SECONDS = 1e8  # three years; a thread cannot wait for an infinite time
DEFAULT_SECONDS = 60.0  # eight GPUs without a daemon take 20

# The types of arguments in a `Table`: a capital letter is a pointer to what the small one is.
TYPES: dict[str, Any] = {
    "p": c_void_p, "i": c_int, "u": c_uint, "z": c_size_t, "q": c_uint64, "s": c_char_p,
    "P": POINTER(c_void_p), "I": POINTER(c_int), "U": POINTER(c_uint), "Z": POINTER(c_size_t),
    "Q": POINTER(c_uint64), "S": POINTER(c_char_p),
}  # fmt: skip


class Table(NamedTuple):
    """A shared library: its file names, and its functions with the types of their arguments."""

    what: str  # its name in messages
    files: tuple[str, ...]
    required: dict[str, str]
    optional: dict[str, str]
    advice: str  # what to do if it does not respond


DRIVER = Table(
    "NVIDIA driver",
    ("libcuda.so.1", "libcuda.so"),
    {
        "cuInit": "u", "cuDriverGetVersion": "I", "cuDeviceGetCount": "I", "cuDeviceGet": "Ii",
        "cuDeviceGetName": "sii", "cuDeviceGetAttribute": "Iii", "cuDevicePrimaryCtxRetain": "Pi",
        "cuDevicePrimaryCtxGetState": "iUI", "cuCtxGetCurrent": "P", "cuCtxSetCurrent": "p",
        "cuCtxSynchronize": "", "cuCtxGetDevice": "I", "cuCtxPushCurrent_v2": "p", "cuCtxPopCurrent_v2": "P",
        "cuModuleLoadDataEx": "Ppupp", "cuModuleUnload": "p", "cuModuleGetFunction": "Pps",
        "cuModuleGetGlobal_v2": "QZps", "cuFuncGetAttribute": "Iip", "cuFuncSetAttribute": "pii",
        "cuPointerGetAttribute": "piq", "cuMemAlloc_v2": "Qz", "cuMemFree_v2": "q",
        "cuMemcpyHtoDAsync_v2": "qpzp", "cuMemcpyDtoHAsync_v2": "pqzp", "cuStreamSynchronize": "p",
        "cuStreamWaitEvent": "ppu", "cuEventCreate": "Pu", "cuEventRecord": "pp", "cuEventSynchronize": "p",
        "cuLaunchKernel": "puuuuuuuppp", "cuGetErrorName": "iS", "cuGetErrorString": "iS",
    },
    {
        "cuLaunchKernelEx": "pppp",  # CUDA 11.8; those of CUDA 12.0 follow
        "cuLibraryLoadData": "Ppppuppu", "cuLibraryUnload": "p", "cuLibraryGetKernel": "Pps",
        "cuKernelGetFunction": "Pp", "cuLibraryGetGlobal": "QZps", "cuCtxGetId": "pQ",
        "cuLinkCreate_v2": "uppP", "cuLinkAddData_v2": "pipzsupp", "cuLinkComplete": "pPZ", "cuLinkDestroy": "p",
        "cuGraphCreate": "Pu", "cuGraphAddKernelNode_v2": "Pppzp", "cuGraphInstantiateWithFlags": "Ppq",
        "cuGraphExecKernelNodeSetParams_v2": "ppp", "cuGraphLaunch": "pp", "cuGraphExecDestroy": "p",
        "cuGraphDestroy": "p", "cuStreamGetPriority": "pI", "cuStreamGetCtx": "pP", "cuStreamIsCapturing": "pI",
        "cuThreadExchangeStreamCaptureMode": "I",
    },
    "`nvidia-smi` and `dmesg` say what is wrong with it; a restart of the machine may be needed",
)  # fmt: skip
DRIVER_NEEDED = (11, 0)

_RESTART = (
    "the GPU's state in this process is lost: end the process; `nvidia-smi` and `dmesg` say whether it works"
)
_DEBUG = "run the program under `compute-sanitizer`, which names the kernel and the line"

ADVICE = {  # by CUresult
    1: "check the arguments, and grid, block and shared memory",
    2: "free memory on the GPU: `nvidia-smi` lists the processes that hold it",
    3: "a forked process cannot use its parent's GPU: start workers with 'spawn'",
    4: "the process is ending: launch nothing from exit handlers",
    34: "a toolkit's stub was loaded: take its `stubs` folder out of LD_LIBRARY_PATH",
    46: "another process uses the GPU exclusively: see `nvidia-smi -q -d COMPUTE`",
    100: "check `nvidia-smi`, CUDA_VISIBLE_DEVICES and the container's --gpus option",
    101: "check CUDA_VISIBLE_DEVICES; `nvidia-smi -L` lists the devices",
    200: "the kernel's file is damaged: install the wheel again, or compile yours again",
    201: "the context was destroyed, or is of another device: look the kernel up again",
    209: "the kernel is not compiled for this GPU: compile it, or ask its authors",
    214: _RESTART,
    218: "read the log of the driver's compiler, which refused the PTX",
    220: _RESTART,
    221: "install the driver's libnvidia-ptxjitcompiler.so.1",
    222: "update the driver, or use a wheel for an older CUDA",
    223: "unset CUDA_DISABLE_PTX_JIT",
    400: "use a stream and a kernel of the current context",
    500: 'the module has no kernel of that name: declare it extern "C"',
    700: f"a kernel used memory that is not its own: {_DEBUG}",
    701: "use fewer threads in a block, or less shared memory",
    702: "the kernel ran too long on a GPU that drives a display: split its work",
    709: "look the kernel up again in a context that exists",
    710: "read on stderr which assert() in a kernel failed",
    715: _DEBUG,
    716: f"an array is not aligned as the kernel expects: {_DEBUG}",
    719: _DEBUG,
    802: "start nvidia-fabricmanager, which this machine's NVSwitch needs",
    803: "restart the machine: libcuda and the kernel module differ in version",
    804: "take the `compat` folder out of LD_LIBRARY_PATH",
    999: "check `nvidia-smi` and `dmesg`; after a suspend, load the module nvidia_uvm again",
}  # fmt: skip


class NoDriver(NamedTuple):
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


def log_options() -> tuple[Any, Any, Any]:
    """Return a buffer for the log of the driver's compiler, and the two options that name it, with their values."""
    log = ctypes.create_string_buffer(_LOG_BYTES)
    return log, (c_int * 2)(_LOG_BUFFER, _LOG_BUFFER_SIZE), (c_void_p * 2)(ctypes.addressof(log), len(log))


class Driver:
    """An initialised driver of this process, its functions as attributes of `c`. All methods raise DriverError."""

    def __init__(self, library: ctypes.CDLL, files: tuple[str, ...], version: tuple[int, int]) -> None:
        self.c: Any = library
        self.files = files
        self.version = version
        self.pid = os.getpid()
        # whether modules can be loaded without a context (CUlibrary, from CUDA 12.0 on)
        self.has_libraries = bool(self.c.cuLibraryLoadData and self.c.cuKernelGetFunction)
        count = c_int()
        self.call("cuDeviceGetCount", byref(count))
        self.devices = tuple(map(self._device, range(count.value if count.value < _MOST_DEVICES else 0)))

    def call(self, name: str, *args: Any, log: Any = None) -> None:
        code = getattr(self.c, name)(*args)
        if code:
            raise self.error(name, code, log.value.decode(errors="replace").strip() if log else "")

    def quick(self, name: str, *, holds_gil: bool = False) -> Any:
        """Return a function without argument types, which takes half the time; None if it is absent.

        With `holds_gil`, for functions that return at once, other threads wait for it.
        """
        if getattr(self.c, name) is None:
            return None
        return ctypes.PyDLL(None, handle=self.c._handle)[name] if holds_gil else self.c[name]

    def device(self, ordinal: int) -> int:
        handle = c_int()
        self.call("cuDeviceGet", byref(handle), ordinal)
        return handle.value

    def current_context(self) -> int:
        handle = c_void_p()
        self.call("cuCtxGetCurrent", byref(handle))
        return handle.value or 0

    def context_id(self, context: int) -> int:
        """Return a number that no other context of this process ever has; the handle itself before CUDA 12.0."""
        number = c_uint64()
        if self.c.cuCtxGetId is None or self.c.cuCtxGetId(context, byref(number)):
            return context
        return -1 - number.value

    def load(self, data: bytes) -> DriverModule:
        log, options, values = log_options()
        handle = c_void_p()
        code = ctypes.create_string_buffer(data)  # adds the NUL that PTX text must end with
        if self.has_libraries:
            more: tuple[Any, ...] = (options, values, 2, None, None, 0)
            self.call("cuLibraryLoadData", byref(handle), code, *more, log=log)
        else:
            self.call("cuModuleLoadDataEx", byref(handle), code, 2, options, values, log=log)
        return DriverModule(handle.value or 0, log, (options, values))

    def unload(self, module: DriverModule) -> None:
        self.call("cuLibraryUnload" if self.has_libraries else "cuModuleUnload", module.handle)

    def function(self, module: DriverModule, name: str) -> int:
        found, kernel = c_void_p(), c_void_p()
        if self.has_libraries:
            self.call("cuLibraryGetKernel", byref(kernel), module.handle, name.encode(), log=module.log)
            self.call("cuKernelGetFunction", byref(found), kernel, log=module.log)
        else:
            self.call("cuModuleGetFunction", byref(found), module.handle, name.encode())
        return found.value or 0

    def variable(self, module: DriverModule, name: str) -> tuple[int, int]:
        address, size = c_uint64(), c_size_t()
        get = "cuLibraryGetGlobal" if self.has_libraries else "cuModuleGetGlobal_v2"
        self.call(get, byref(address), byref(size), module.handle, name.encode())
        return address.value, size.value

    def attribute(self, function: int, attribute: int) -> int:
        value = c_int()
        self.call("cuFuncGetAttribute", byref(value), attribute, function)
        return value.value

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), attribute, self.device(ordinal))
        return value.value

    def pointer(self, address: int, attribute: int) -> int | None:
        """Return a CUpointer_attribute of an address in the current context; None if it has none."""
        value = c_uint64()
        return None if self.c.cuPointerGetAttribute(byref(value), attribute, address) else value.value

    def error(self, call: str, code: int, log: str = "", kernel: str = "") -> DriverError:
        return _error(self.c, call, code, log, kernel)

    def _device(self, ordinal: int) -> Device:
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), self.device(ordinal))
        major, minor = (self.device_attribute(ordinal, a) for a in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR))
        return Device(
            ordinal, " ".join(printable(name.value.decode(errors="replace")).split()), (major, minor)
        )


_drivers: dict[tuple[str, ...], Driver] = {}


def open_driver(files: tuple[str, ...] = ()) -> Driver | NoDriver:
    """Open and initialise the driver, and read its devices; raises nothing.

    A driver that opened is kept for the life of the process; after a failure the next call tries again.
    """
    driver = _drivers.get(files)
    if driver is None:
        opened = _opened(files)
        if isinstance(opened, Reason):
            return NoDriver(opened)
        driver = _drivers.setdefault(files, opened)
    return driver if driver.pid == os.getpid() else NoDriver(Reason("forked"))


def opened_driver(files: tuple[str, ...] = ()) -> Driver | None:
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
    return _bound(ctypes.CDLL(second, handle=first), second, files)


def _start(files: tuple[str, ...]) -> tuple[Any, ...]:
    opened = open_library(DRIVER, files)
    if isinstance(opened, Reason):
        return tuple(opened)
    library, file = opened
    version = _version(library)
    if version is not None and version < DRIVER_NEEDED:
        facts = {"library": file, "what": "CUDA", "found": dotted(version), "needed": dotted(DRIVER_NEEDED)}
        return "library-too-old", facts
    found = _bound(library, file, files, start=True)
    return tuple(found) if isinstance(found, Reason) else (library._handle, file)


def _bound(library: Any, file: str, files: tuple[str, ...], *, start: bool = False) -> Driver | Reason:
    problem = bind(library, file, DRIVER)
    if problem is not None:
        return problem
    try:
        failed = start and library.cuInit(0)
        if failed:
            raise _error(library, "cuInit", failed)
        return Driver(library, files, _version(library) or (0, 0))
    except DriverError as error:
        return Reason("driver-error", {"message": str(error), "call": error.call, "code": error.code})


def _error(library: Any, call: str, code: int, log: str = "", kernel: str = "") -> DriverError:
    words = []
    for function, unknown in (("cuGetErrorName", "unknown error"), ("cuGetErrorString", "no description")):
        text = c_char_p()
        failed = getattr(library, function)(code, byref(text))
        words.append(unknown if failed or not text.value else text.value.decode(errors="replace"))
    return DriverError(call, code, words[0], words[1], log, ADVICE.get(code, ""), kernel=kernel)


def _version(library: ctypes.CDLL) -> tuple[int, int] | None:
    """Return the newest CUDA version that the driver supports, before any other call."""
    function = getattr(library, "cuDriverGetVersion", None)
    value = c_int()
    if function is None or function(byref(value)):
        return None
    return value.value // 1000, value.value % 1000 // 10


def open_library(table: Table, files: tuple[str, ...] = ()) -> tuple[ctypes.CDLL, str] | Reason:
    """Open the first existing file of a table; return it with its name, or why there is none."""
    problems: dict[str, list[str]] = {}  # the loader's messages, each with its names
    for file in files or table.files:
        try:
            return ctypes.CDLL(file), file
        except OSError as error:
            problems.setdefault(str(error).replace(f"{file}: ", "", 1), []).append(file)
    problem = "; ".join(f"{', '.join(names)}: {words}" for words, names in problems.items())
    return Reason("no-library", {"what": table.what, "problem": problem})


def bind(library: ctypes.CDLL, file: str, table: Table) -> Reason | None:
    """Set the types of a table's functions, those that are absent to None; return why it cannot be used, or None."""
    missing = [name for name in table.required if not hasattr(library, name)]
    if missing:
        facts = {"library": file, "what": table.what, "problem": f"it lacks {', '.join(missing)}"}
        return Reason("not-the-library", facts)
    for name, types in {**table.required, **table.optional}.items():
        function = getattr(library, name, None)
        if function is None:
            setattr(library, name, None)
        else:
            function.argtypes = [TYPES[letter] for letter in types]
            function.restype = c_int
    return None


class Attempt:
    """Runs a function in a thread, so that a library that hangs hangs no program.

    `record` is the state of an attempt as in `process`.
    """

    lost = False  # one did not answer: others get a tenth of the time

    def __init__(
        self,
        table: Table,
        function: Callable[[], Any],
        files: Sequence[str] = (),
        record: dict[str, Any] | None = None,
    ) -> None:
        self._table = table
        self._files = files or table.files
        self.record = record or {}
        if record is None:
            thread = threading.Thread(target=self._run, args=(function,), name="gpuforge", daemon=True)
            self.record = {"thread": thread, "outcome": [], "waited": False}
            thread.start()

    def wait(self, seconds: float) -> Any:
        """Return the function's result, or a Reason if it takes longer; a second call does not wait."""
        seconds = self.record.setdefault("seconds", seconds / (10 if self.lost else 1))
        self.record["thread"].join(0 if self.record["waited"] else seconds)
        self.record["waited"] = True
        if not self.record["outcome"]:
            Attempt.lost = True
            facts = {"what": self._table.what, "seconds": f"{seconds:g}", "advice": self._table.advice}
            return Reason("no-answer", facts)
        return self.record["outcome"][0]

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            reach(self._files)
            found = function()
        except Exception as error:  # noqa: BLE001  nobody is above a thread
            facts = {"library": ", ".join(self._files), "what": self._table.what, "problem": str(error)}
            found = Reason("not-the-library", facts)
        self.record["outcome"].append(found)


def reach(files: Sequence[str]) -> None:
    """Read a byte of what the loader would open first, to wait here for a pipe or a dead mount.

    The loader would wait with a lock that imports need.
    """
    for folder in (os.environ.get("LD_LIBRARY_PATH") or "/").split(":"):
        for file in files:
            with contextlib.suppress(OSError), open(os.path.join(folder, file), "rb") as stream:
                stream.read(1)


def patience(env: Any) -> float:
    """Return how many seconds a library may take: GPUFORGE_DRIVER_TIMEOUT, else 60."""
    try:
        seconds = float(env.get(SECONDS, ""))
    except ValueError:
        return DEFAULT_SECONDS
    return DEFAULT_SECONDS if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_SECONDS)


DISABLE_GPU = "GPUFORGE_DISABLE_GPU"


def switched_off(env: Mapping[str, str]) -> Reason | None:
    value = env.get(DISABLE_GPU, "")
    return None if value in {"", "0"} else Reason("switched-off", {"variable": DISABLE_GPU, "value": value})


RELEASE_FILE = Path("/proc/driver/nvidia/version")


class Probe(NamedTuple):
    """The facts that decide which image can run here.

    `driver` is the newest CUDA version that the driver supports, None without a usable one. `found` has the results of
    back ends by their names: what they found, or why there is nothing; None or no entry: they did not look.
    """

    driver: tuple[int, int] | None
    devices: tuple[Device, ...] = ()
    problem: Reason | None = None
    cpu: Cpu | None = None
    found: Mapping[str, Any] = {}


def probe(files: tuple[str, ...] = ()) -> Probe:
    driver = open_driver(files)
    if isinstance(driver, NoDriver):
        return Probe(None, problem=driver.reason)
    return Probe(driver.version, driver.devices, None if driver.devices else Reason("no-devices"))


def driver_release() -> str:
    """Return the driver's own release, "580.159.04"; "" if it is unknown."""
    try:
        found = re.search(r"\s(\d{3,}(?:\.\d+){1,2})\s", RELEASE_FILE.read_text())
    except OSError:
        return ""
    return found[1] if found else ""
