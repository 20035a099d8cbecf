"""CUDA sources that NVIDIA's runtime compiler compiles at their first use, once on a machine.

The compiler is found in Python's packages or on the system: https://docs.nvidia.com/cuda/nvrtc/. Its packages are
nvidia-cuda-nvrtc-cu11, -cu12, and nvidia-cuda-nvrtc from CUDA 13 on.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ...arch import Arch, binary_mismatch
from ...cache import CacheKey, KernelCache
from ...decide import driver_refusal
from ...driver import Attempt, Probe, Table, bind, patience
from ...recipe import Sources
from ...values import Build, Image, Module, Reason, Refused, Verdict, dotted
from ..cuda import kernel_of
from ..cuda.jit import kept_function
from ..cuda.kernel import Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...values import BuildPlace, Module
    from .. import Here, Request


NVRTC = Table(
    "NVRTC",
    ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"),
    {
        "nvrtcVersion": "II", "nvrtcGetNumSupportedArchs": "I", "nvrtcGetSupportedArchs": "I",
        "nvrtcCreateProgram": "PssiSS", "nvrtcCompileProgram": "piS", "nvrtcGetCUBINSize": "pZ",
        "nvrtcGetCUBIN": "ps", "nvrtcGetProgramLogSize": "pZ", "nvrtcGetProgramLog": "ps", "nvrtcDestroyProgram": "P",
    },
    {"nvrtcGetBundledHeadersInfo": "pS"},  # CUDA 13.3, as --use-bundled-headers
    "install its package again",
)  # fmt: skip
SWITCH = "GPUFORGE_NVRTC"  # the only file to use; "0" uses none
_PACKAGES = ("nvidia/cu[0-9]*/lib", "nvidia/cuda_nvrtc/lib")
_VERSION = re.compile(r"libnvrtc\.so\.(\d+)(?:\.(\d+))?(?:\.(\d+))?")
_LONGEST_LOG = 4000  # characters of the compiler's log that a reason keeps
_NOT_FOUND = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')  # of 13.5 and of 12.4
_opened: dict[str, Nvrtc | Reason] = {}


class Nvrtc(NamedTuple):
    """A library of NVIDIA's runtime compiler: its CUDA version, and its architectures.

    `release` is its whole version, from its package's metadata or its file's name; it differs for every build.
    """

    file: str
    version: tuple[int, int]
    release: str
    archs: tuple[Arch, ...]

    @property
    def label(self) -> str:
        """Its name for people and for keys: "nvrtc 12.4.127"."""
        return f"nvrtc {self.release}"

    def target(self, gpu: tuple[int, int]) -> Arch | None:
        """Return the architecture to compile for so that a device of compute capability `gpu` runs the code."""
        return max((arch for arch in self.archs if binary_mismatch(arch, gpu) is None), default=None)


def find(env: Mapping[str, str], driver: tuple[int, int], install: str) -> Nvrtc | Reason:
    """Return the NVRTC to compile with for a driver of this CUDA version, or why there is none.

    It is the first whose code the driver can load: of Python's packages, then of the system. `install` is part of the
    reason if there is none. Never raises, and never hangs.
    """
    named = env.get(SWITCH, "")
    if named == "0":
        return Reason("switched-off", {"variable": SWITCH, "value": named})
    refused: list[Nvrtc] = []
    problem: Reason | None = None
    for file in [named] if named else _files(env):
        found = _open(file, env)
        if isinstance(found, Reason):
            problem = found if named or os.sep in file else problem
        elif found.version[0] <= driver[0]:
            return found
        else:
            refused.append(found)
    if refused:
        return refused[0]
    return problem or Reason("not-installed", {"what": "NVRTC", "install": install})


def compile_cubin(
    nvrtc: Nvrtc, name: str, source: bytes, headers: Mapping[str, bytes], options: Sequence[str]
) -> bytes:
    """Return machine code of one source, `name` in messages. Raises Refused with the compiler's log.

    `headers` are by the names in their #include lines; the compiler reads no other file of the package. CUDA's own
    headers are NVRTC's, which it has from 13.3 on; they are unpacked for this compilation, if a source includes one.
    """
    library = _library(nvrtc.file)
    code, log = _compiled(library, name, source, headers, options)
    missing = _NOT_FOUND.search(log)
    if code is None and missing and not library.nvrtcGetBundledHeadersInfo:
        facts = {"file": name, "header": missing[1], "compiler": nvrtc.label}
        raise Refused(Reason("no-cuda-headers", facts))
    if code is None and missing:
        try:
            with TemporaryDirectory(prefix="gpuforge-nvrtc-") as folder:  # 26 MB, in less than a second
                own = f"--use-bundled-headers={folder}"
                code, log = _compiled(library, name, source, headers, [*options, own])
        except OSError as error:
            log = f"CUDA's headers cannot be unpacked: {error}"
    if code is None:
        facts = {"file": name, "compiler": nvrtc.label, "problem": log[:_LONGEST_LOG]}
        raise Refused(Reason("compile-failed", facts))
    return code


def _compiled(
    library: Any, name: str, source: bytes, headers: Mapping[str, bytes], options: Sequence[str]
) -> tuple[bytes | None, str]:
    """Return machine code, None if the compiler refuses the source, and the compiler's log."""
    program = c_void_p()
    contents = (c_char_p * max(len(headers), 1))(*headers.values())
    names = (c_char_p * max(len(headers), 1))(*(os.fsencode(header) for header in headers))
    arguments = (c_char_p * max(len(options), 1))(*(os.fsencode(option) for option in options))
    _check(
        library,
        "nvrtcCreateProgram",
        *(byref(program), source, os.fsencode(name), len(headers), contents, names),
    )
    try:
        failed = library.nvrtcCompileProgram(program, len(options), arguments)
        log = _text(library, "nvrtcGetProgramLog", program).decode(errors="replace").strip()
        return None if failed else _text(library, "nvrtcGetCUBIN", program), log
    finally:
        library.nvrtcDestroyProgram(byref(program))


def _files(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the files and names that may be an NVRTC, the newest first in each kind of place."""
    packaged = [
        file
        for folder in sys.path
        for place in _PACKAGES
        for file in glob.glob(os.path.join(glob.escape(folder or "."), place, "libnvrtc.so.*"))
    ]
    yield from sorted(dict.fromkeys(map(os.path.abspath, packaged)), key=_major, reverse=True)
    yield from NVRTC.files
    homes = [env[name] for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    for home in (*homes, "/usr/local/cuda"):
        yield from sorted(glob.glob(os.path.join(glob.escape(home), "lib64", "libnvrtc.so.[0-9]*")))[:1]


def _major(file: str) -> int:
    found = _VERSION.fullmatch(os.path.basename(file))
    return int(found[1]) if found else 0


def _open(file: str, env: Mapping[str, str]) -> Nvrtc | Reason:
    """Open a library once for the process; a failure is not remembered."""
    found = _opened.get(file)
    if found is None:
        found = Attempt(NVRTC, partial(_opened_library, file), (file,)).wait(patience(env))
        if isinstance(found, Nvrtc):
            _opened[file] = found
    assert found is not None  # noqa: S101  an attempt ends with one or the other
    return found


def _opened_library(file: str) -> Nvrtc | Reason:
    try:
        library = ctypes.CDLL(file)
    except OSError as error:
        return Reason("no-library", {"what": NVRTC.what, "problem": str(error)})
    problem = bind(library, file, NVRTC)
    if problem:
        return problem
    try:
        return _described(library, file)
    except Refused as refused:
        return refused.reason


def _described(library: Any, file: str) -> Nvrtc:
    """Ask an open library for its version and architectures; raises Refused."""
    major, minor, count = c_int(), c_int(), c_int()
    _check(library, "nvrtcVersion", byref(major), byref(minor))
    _check(library, "nvrtcGetNumSupportedArchs", byref(count))
    numbers = (c_int * count.value)()
    _check(library, "nvrtcGetSupportedArchs", numbers)
    version = (major.value, minor.value)
    archs = tuple(Arch(number // 10, number % 10) for number in numbers)
    return Nvrtc(file, version, _release(file, version), archs)


def _library(file: str) -> Any:
    library = ctypes.CDLL(file)  # it is already open: this returns its handle
    bind(library, file, NVRTC)
    return library


def _release(file: str, version: tuple[int, int]) -> str:
    """Return the whole version: from the file's name, from the package's metadata, or with the file's size."""
    plain = f"{version[0]}.{version[1]}"
    path = os.path.realpath(file)
    name = _VERSION.fullmatch(os.path.basename(path))
    if name and name[3]:
        return f"{name[1]}.{name[2]}.{name[3]}"
    site = path
    for _ in range(4):  # site-packages/nvidia/cu13/lib/libnvrtc.so.13
        site = os.path.dirname(site)
    pattern = os.path.join(glob.escape(site), f"nvidia_cuda_nvrtc*-{plain}.*.dist-info")
    packages = [os.path.basename(found) for found in glob.glob(pattern)]
    if len(packages) == 1:
        return packages[0].split("-")[1][: -len(".dist")]
    try:
        return f"{plain} of {os.path.getsize(path)} bytes"
    except OSError:  # the loader found it, so its path is not known
        return plain


def _text(library: Any, function: str, program: c_void_p) -> bytes:
    size = c_size_t()
    _check(library, f"{function}Size", program, byref(size))
    text = ctypes.create_string_buffer(size.value)
    _check(library, function, program, text)
    return text.raw[:-1] if function.endswith("Log") else text.raw


def _check(library: Any, function: str, *arguments: object) -> None:
    code = getattr(library, function)(*arguments)
    if code:
        problem = f"{function} failed (nvrtcResult {code})"
        facts = {"library": library._name, "what": NVRTC.what, "problem": problem}
        raise Refused(Reason("not-the-library", facts))


def key_of(module: Module, sources: Sources, compiler: Nvrtc, gpu: tuple[int, int]) -> CacheKey:
    """Return the key for the machine code of a source for a device; raises Refused for a damaged source."""
    target = compiler.target(gpu)
    assert target is not None  # noqa: S101  the candidate would have been refused
    return CacheKey.of(
        module.read(),
        headers=sources.spellings(module),  # what each #include finds depends on the module's folder
        options=sources.filled(target.number),
        toolchain=compiler.label,
        arch=target.sm,
        file=module.source,
        label=module.source,
    )


def compile_module(module: Module, sources: Sources, compiler: Nvrtc, key: CacheKey) -> bytes:
    """Compile a source for its key; raises Refused."""
    return compile_cubin(compiler, module.source, module.read(), sources.spellings(module), key.options)


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> Nvrtc | Reason | None:
    """Return the library that compiles here, or why there is none; None without a driver."""
    sources = places[-1].sources
    return find(env, machine.driver, sources.install) if machine.driver and sources else None


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge sources by the architectures of the compiler, and by the driver that loads the result."""
    if here.obstacle is not None:
        return Verdict(False, here.obstacle)
    found: Nvrtc | Reason | None = here.machine.found.get("NVRTC")
    if not isinstance(found, Nvrtc):
        return Verdict(False, found or Reason("not-looked-for", {"what": "NVRTC"}))
    target = found.target(here.gpu)
    if target is None:
        return Verdict(False, Reason("nvrtc-older", {"compiler": found.label, "here": dotted(here.gpu)}))
    refusal = driver_refusal(Image("cubin", target, found.version), here.machine.driver or (0, 0))
    merit = Reason("nvrtc", {"compiler": found.label, "arch": target.sm})
    return Verdict.of(refusal or build.failure, merit)


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> Kernel | None:
    """Return a kernel of a source, from the kernel cache if it is there; None without a context.

    Raises Refused with the compiler's log, DriverError.
    """
    compiler: Nvrtc = request.machine.found["NVRTC"]
    context, sources = request.context, place.sources
    if context is None or sources is None:
        return None
    cache = KernelCache.of_user(request.env)
    key = key_of(module, sources, compiler, context.driver.devices[context.ordinal].capability)
    made: list[bytes] = []

    def compile_it() -> bytes:
        made[:] = [compile_module(module, sources, compiler, key)]
        return made[0]

    def code() -> bytes:
        return made[0] if made else cache.obtain(key, compile_it, cache=request.use_cache)

    compiled = kept_function(request.name, key, context, cache, compile_it, use=request.use_cache)
    return kernel_of(request, context, compiled, code)
