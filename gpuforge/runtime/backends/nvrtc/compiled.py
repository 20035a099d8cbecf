"""Compiles sources at their first use, once on this machine, through the kernel cache."""

from __future__ import annotations

from functools import partial

from ...cache import KernelCache
from ...cache_key import CacheKey
from ...context import Context, Function
from ...errors import DriverError
from ...index import Module
from ...jit import NOT_FOUND
from ...sources import Sources
from .library import Nvrtc, compile_cubin


def function(
    name: str,
    module: Module,
    sources: Sources,
    compiler: Nvrtc,
    context: Context,
    cache: KernelCache,
    *,
    use: bool = True,
) -> Function:
    """Return a kernel of a source that NVRTC compiles for the device of `context`, from the cache if it is there.

    With `use` False nothing is looked up or kept. Raises Refused with the compiler's log, DriverError.
    """
    capability = context.driver.devices[context.ordinal].capability
    key = key_of(module, sources, compiler, capability)
    for attempt in range(2):  # code that the driver refuses to load is dropped, and compiled once more
        try:
            return context.function(
                name,
                key.digest,
                lambda: cache.obtain(key, partial(compile_module, module, sources, compiler, key), cache=use),
            )
        except DriverError as error:
            if error.code == NOT_FOUND or attempt:
                raise
            cache.discard(key)
    raise AssertionError  # the loop has returned or raised


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
