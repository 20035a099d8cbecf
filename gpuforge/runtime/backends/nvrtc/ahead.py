"""Compiles a module with NVRTC, through the kernel cache, for a user build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...arch import Arch
from ...cache import KernelCache
from ...recipe import Recipe, UserToolchain
from ...userbuild import compilers
from ...userbuild.compilers import Absent, CompileInputs, LibraryCompiler
from ...userbuild.execute import Stopped
from ...values import Module, Refused
from .. import nvrtc
from . import Nvrtc


@dataclass(frozen=True)
class NvrtcCompiler(LibraryCompiler):
    """NVRTC on this machine."""

    library: Nvrtc

    def target(self, gpu: Arch) -> Arch:
        """Return the architecture of its code for a GPU; an old NVRTC may only know older ones than the GPU's."""
        target = self.library.target(gpu.capability)
        assert target is not None  # noqa: S101  `find` has refused others
        return target

    def image(
        self, recipe: Recipe, toolchain: UserToolchain, here: CompileInputs, stem: str, file: Path
    ) -> bytes:
        """Return the machine code of one source; raises Stopped."""
        part = recipe.sources_of(toolchain)
        assert here.arch is not None  # noqa: S101  `find` has refused others
        packaged = next((module for module in part.modules.values() if Path(module.file) == file), None)
        module = packaged or Module(stem, file.name, str(file), "", ())
        try:
            key = nvrtc.key_of(module, part, self.library, here.arch.capability)
            return KernelCache.of_user(here.env).obtain(
                key, lambda: nvrtc.compile_module(module, part, self.library, key)
            )
        except Refused as refused:
            problem = str(refused.reason.facts.get("problem", ""))
            first = next(iter(problem.splitlines()), "")
            text = f"{self.label} refuses {file.name}: {first}" if problem else str(refused)
            raise Stopped(text, log=str(refused).encode() if problem else b"") from refused


def find(toolchain: UserToolchain, here: CompileInputs, path: str) -> NvrtcCompiler | Absent:
    """Return NVRTC, the file at `path` if one is given, or why it cannot be used here."""
    env = {**here.env, nvrtc.SWITCH: path} if path else here.env
    found = nvrtc.find(env, here.machine.driver or (0, 0), toolchain.install.get("", ""))
    if not isinstance(found, Nvrtc):
        return Absent(toolchain, () if found.kind == "not-installed" else (str(found),))
    numbers = compilers.numbers(found.release)
    if not all(compilers.holds(operator, bound, numbers) for operator, bound in toolchain.accepts):
        return Absent(toolchain, (f"{found.file}: version {found.release} is not {toolchain.version}",))
    if here.arch and found.target(here.arch.capability) is None:
        return Absent(toolchain, (f"{found.label} cannot compile for {here.arch.sm}",))
    return NvrtcCompiler(toolchain.family, Path(found.file), found.release, found)
