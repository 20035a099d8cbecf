"""`[toolchains.<name>]`: a compiler."""

from __future__ import annotations

from typing import Literal

from packaging.specifiers import SpecifierSet
from pydantic import Field

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table

Compiler = Literal["g++", "clang++", "nvcc", "nvc++", "nvrtc", "opencl", "halide", "iree", "command"]


class Toolchain(Table):
    """A compiler that this package is built with, under a name that the objects refer to."""

    compiler: Compiler = Field(examples=["g++"])
    """The compiler's family. `command` is any program, called as `command` says: on the user's machine, and for a
    fallback in the build environment. `nvrtc` (CUDA's runtime compiler, from PyPI) and `opencl` (through pyopencl)
    compile user-compiled objects of kind `module`.
    `halide` and `iree` are names for later: `gpuforge build` refuses them."""
    version: forms.VersionRange | None = Field(default=None, examples=[">=11,<15"])
    """Versions that may be used. Left out, any version that fits the CUDA toolkit. Where the usual host compiler does
    not fit a toolkit, and `path` names none, another installed one in this range that does is used, or one that is
    fetched (on Debian and Ubuntu): `g++-11` for CUDA 11.8."""
    path: forms.Text | None = Field(default=None, examples=["/usr/bin/g++-12"])
    """The executable of the host compiler. Left out, it is looked for on PATH and in the usual places. Refused for
    every other toolchain: nvcc is the toolkit's, and a user's compiler is on the user's machine."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-O3"]])
    """Flags added whenever this toolchain compiles kernels."""
    command: tuple[str, ...] = Field(default=(), examples=[["nrnivmodl", "-coreneuron", "{include}"]])
    """The command line (`compiler = "command"`), as a list of words; no shell reads them. `{sources}` stands for the
    sources, `{include}` for the folder that they lie in, `{abi}` for the C file with the ABI id, which must be linked
    in, `{output}` for the library to write and `{arch}` for the GPU's compute capability, such as `90`: a word with
    `{arch}` is left out where there is no GPU. A word is repeated for each source, and may hold one placeholder."""
    product: forms.Pattern | None = Field(default=None, examples=["*/libcorenrnmech.so"])
    """Where the command leaves the library, as a pattern in the folder that it runs in. Left out, it writes
    `{output}`."""
    install: forms.Text | None = Field(default=None, examples=["pip install neuron"])
    """How a user gets this toolchain, for the message that nothing was found, which says it of the last one tried. Left
    out, the compiler's packages are named, or the command's program."""

    @property
    def versions(self) -> SpecifierSet:
        """The versions that may be used, as a set that says whether it contains one."""
        return SpecifierSet(self.version or "")
