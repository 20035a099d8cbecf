"""Loads kernels of OpenCL, which the device's driver compiles from source, through the kernel cache."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ...cache import CacheKey, KernelCache
from ...recipe import Sources
from ...values import Module, Reason, Refused
from .devices import Needs, find
from .kernel import OpenClContext, OpenClKernel, context_of, failure, given_context

OPTIONS = "GPUFORGE_OPENCL_OPTIONS"
_PYOPENCL_OPTIONS = "PYOPENCL_BUILD_OPTIONS"  # pyopencl adds them to those of every program
_TYPES = "-cl-kernel-arg-info"  # a kernel then tells the types of its parameters
_LONGEST_LOG = 4000  # characters of the compiler's log that a reason keeps


class Compilation(NamedTuple):
    """A module to compile: its set's sources, additional options of the user, and the cache for compiled code.

    With `use_cache` False nothing is looked up in the cache or kept there.
    """

    module: Module
    sources: Sources
    own: tuple[str, ...]
    cache: KernelCache
    use_cache: bool

    @classmethod
    def of(
        cls, module: Module, sources: Sources, env: Mapping[str, str], *, use_cache: bool = True
    ) -> Compilation:
        """Return the compilation of a module in an environment.

        Options that name folders make it uncached, as the key does not cover the files there.
        """
        own = tuple(env.get(OPTIONS, "").split())
        named = any(word.startswith("-I") for word in (*own, *_options_of_pyopencl()))
        return cls(module, sources, own, KernelCache.of_user(env), use_cache and not named)

    def key(self, device: Any) -> CacheKey:
        """Return the key of the program; raises Refused for a damaged source."""
        return CacheKey.of(
            self.module.read(),
            headers=self.sources.included(),
            options=(*self.sources.filled(), *self.own, *_options_of_pyopencl()),
            toolchain=f"opencl {device.platform.name} {device.platform.version}",
            arch=device.name.strip() or "device",
            driver=device.driver_version,
            label=self.module.source,
        )


def needs_of(sources: Sources) -> Needs:
    return Needs(sources.install, sources.devices, sources.extensions)


def load(
    name: str, compilation: Compilation, env: Mapping[str, str], device: int, given: Any
) -> OpenClKernel:
    """Return a kernel of a source, compiled for a device, or for the device of a context of pyopencl.

    Programs that were compiled before come from the cache. Raises Refused with the compiler's log, DriverError for a
    kernel that is not there.
    """
    context = given_context(given) if given is not None else _context(compilation.sources, env, device)
    program = context.program(compilation.key(context.device), partial(_build, compilation, context))
    return OpenClKernel(name, compilation.module.source, context, program)


def prepare(sources: Sources, env: Mapping[str, str]) -> str:
    """Compile a set's sources for the first device, into the cache; return the device's name.

    Raises Refused if there is no device, or with the compiler's log.
    """
    context = _context(sources, env, 0)
    for module in sources.modules.values():
        compilation = Compilation.of(module, sources, env)
        key = compilation.key(context.device)
        compilation.cache.obtain(key, partial(_compile, compilation, context), cache=compilation.use_cache)
    return context.name


def _options_of_pyopencl() -> tuple[str, ...]:
    return tuple(os.environ.get(_PYOPENCL_OPTIONS, "").split())


def _context(sources: Sources, env: Mapping[str, str], device: int) -> OpenClContext:
    found = find(env, needs_of(sources))
    if isinstance(found, Reason):
        raise Refused(found)
    return context_of(found[device], device)


def _build(compilation: Compilation, context: OpenClContext, key: CacheKey) -> Any:
    import pyopencl as cl

    for attempt in range(2):  # code that the driver refuses to load is dropped, and compiled once more
        binary = compilation.cache.obtain(
            key, partial(_compile, compilation, context), cache=compilation.use_cache
        )
        try:
            return cl.Program(context.context, [context.device], [binary]).build([_TYPES], cache_dir=False)
        except cl.Error as error:
            if attempt:
                kernel = compilation.module.name, compilation.module.source
                raise failure(error, "clCreateProgramWithBinary", context.name, kernel) from error
            compilation.cache.discard(key)
    raise AssertionError  # the loop has returned or raised


def _compile(compilation: Compilation, context: OpenClContext) -> bytes:
    """Compile a source for a context's device; raises Refused with the compiler's log."""
    import pyopencl as cl

    module, sources = compilation.module, compilation.sources
    program = cl.Program(context.context, module.read().decode("utf-8", "surrogateescape"))
    try:
        with _without_spaces(sources.folder) as folder:
            folders = [word.replace(sources.folder, folder) for word in sources.with_folders()]
            options = [_TYPES, *sources.filled(), *folders, *compilation.own]
            with warnings.catch_warnings():  # NVIDIA's compiler always prints a line
                warnings.simplefilter("ignore", cl.CompilerWarning)
                built = program.build(options, devices=[context.device], cache_dir=False)
    except cl.Error as error:
        facts = {"file": module.source, "compiler": context.name, "problem": _log(error)}
        raise Refused(Reason("compile-failed", facts)) from error
    binaries: list[bytes] = built.get_info(cl.program_info.BINARIES)
    return binaries[0]


@contextlib.contextmanager
def _without_spaces(folder: str) -> Iterator[str]:
    """Yield a folder's path for OpenCL's options, which cannot be quoted: a link if it has spaces."""
    if not any(character.isspace() for character in folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="gpuforge-") as place:
        link = os.path.join(place, "sources")
        os.symlink(folder, link)
        yield link


def _log(error: Exception) -> str:
    """Return the compiler's output, without the lines that pyopencl adds."""
    lines = str(error).strip().splitlines()
    start = next((n + 1 for n, line in enumerate(lines) if line.startswith("Build on ")), 0)
    end = next((n for n, line in enumerate(lines) if line.startswith("(options: ")), len(lines))
    return "\n".join(lines[start:end]).strip()[:_LONGEST_LOG]
