"""`[toolchains.<name>]`: a compiler."""

from __future__ import annotations

from typing import Annotated, Literal

from packaging.specifiers import SpecifierSet
from pydantic import Field

from gpuforge.manifest import forms
from gpuforge.manifest.compiler_names import CompilerName
from gpuforge.manifest.model.table import Table, listed
from gpuforge.manifest.validators import Distinct
from gpuforge.toolchain_names import OWN

OpenClDevice = Literal["gpu", "accelerator", "cpu"]


class DeclaredToolchain(Table):
    """A compiler for this package, under a name that the objects refer to."""

    compiler: Annotated[str, CompilerName] = Field(
        examples=["g++"],
        description=listed(
            "The compiler's family, or the name of a [plug-in](toolchains.md):",
            (f"`{name}`{f' ({own.about})' if own.about else ''}" for name, own in OWN.items()),
        ),
    )
    version: forms.VersionRange | None = Field(default=None, examples=[">=11,<15"])
    """Accepted versions. Default: any version that fits the CUDA toolkit. If the usual host compiler does not fit a
    toolkit and `path` is not set, gpuforge uses another installed compiler in this range, or fetches one (on Debian and
    Ubuntu): `g++-11` for CUDA 11.8. With `iree`, this key is required, because the wheel's extra `iree` requires IREE's
    runtime in the same range. Name one release (`>=3.13,<3.14`): modules run only with the release that compiled
    them."""
    path: forms.Text | None = Field(default=None, examples=["/usr/bin/g++-12"])
    """The executable of the host compiler. Default: the one on PATH or in the usual places. Every other toolchain
    refuses this key: nvcc belongs to the toolkit, and a user's compiler is on the user's machine."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-O3"]])
    """Flags for every compilation of kernels by this toolchain."""
    targets: Annotated[tuple[forms.Text, ...], Distinct] = Field(
        default=(), examples=[["compute_80", "compute_50", "cpu"]]
    )
    """Targets of a compiler from PyPI. The runtime uses the first output that the user's machine runs. `halide`
    and `iree` take compute capabilities (`compute_80`), `cpu`, and levels of CPUs (`x86-64-v3`), `iree` also
    `vulkan-spirv`. Default: the compiler's own choice, `compute_50` and `cpu` for `halide`, `compute_60`,
    `vulkan-spirv` and `cpu` for `iree`. Toolchains with other compilers refuse this key."""
    command: tuple[str, ...] = Field(default=(), examples=[["nrnivmodl", "-coreneuron", "{include}"]])
    """The command line (`compiler = "command"`), as a list of words; no shell is involved. Placeholders: `{sources}`
    are the sources, `{include}` is their folder, `{abi}` the C file with the ABI id, which must be linked in,
    `{output}` the library to write, and `{arch}` the GPU's compute capability, such as `90`. A word with `{arch}` is
    dropped if there is no GPU. A word may contain one placeholder, and is repeated for each value of it."""
    product: forms.Pattern | None = Field(default=None, examples=["*/libcorenrnmech.so"])
    """Where the command leaves the library: a pattern in the folder that the command runs in. Default: the command
    writes `{output}`."""
    devices: Annotated[tuple[OpenClDevice, ...], Distinct] = Field(default=(), examples=[["cpu"]])
    """Kinds of OpenCL devices that the package uses (`compiler = "opencl"`). Default: any, GPUs first. Users restrict
    them further with `GPUFORGE_OPENCL`."""
    extensions: Annotated[tuple[forms.OpenClExtension, ...], Distinct] = Field(
        default=(), examples=[["cl_khr_fp64"]]
    )
    """OpenCL extensions that a device must have (`compiler = "opencl"`). On machines without such a device the next
    back end is used."""
    install: forms.Text | None = Field(default=None, examples=["pip install neuron"])
    """How users get this toolchain. If none of an object's toolchains is found, the error shows this text for the last
    one. Default: the packages of the compiler, or the command's program."""

    @property
    def versions(self) -> SpecifierSet:
        """The accepted versions, as a set of specifiers."""
        return SpecifierSet(self.version or "")
