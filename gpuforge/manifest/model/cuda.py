"""`[cuda]` and `[cuda.<version>]`: linkage, toolkits and architectures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from gpuforge.cuda.linkage import Linkage, Requires
from gpuforge.cuda.toolkit_providers import ABOUT, Provider
from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table, listed
from gpuforge.manifest.validators import CommonOrMany, Distinct, wrong
from gpuforge.runtime.arch import Target, targets


class CudaVersion(Table):
    """One CUDA toolkit, and the architectures to build for with it."""

    toolkit: forms.ToolkitVersion = Field(examples=["12.4"])
    """Version of the toolkit, `major.minor`. A table named `[cuda."12.4"]` need not repeat it."""
    provider: Provider | None = Field(
        default=None,
        examples=["pypi"],
        description=listed(
            "Where the toolkit comes from:",
            (f"`{name}` {what}" for name, what in ABOUT.items()),
            "Default: the first of these, in this order, that has the version; `--dry-run` shows it. "
            "GPUFORGE_DEBIAN_MIRROR and GPUFORGE_REDIST_URL select other servers.",
        ),
    )
    archs: Annotated[tuple[forms.Architecture, ...], Distinct, CommonOrMany] = Field(
        examples=[["80", "90"], "common"]
    )
    """Compute capabilities to compile for. `common` is the smallest set with code for every GPU that the toolkit knows:
    machine code for the lowest of each major, and PTX of the lowest of all ([a table](kernels.md#archs--common)). `90a`
    is architecture-specific and `100f` family-specific code. `+ptx` adds PTX, which the driver compiles for newer GPUs;
    `90a` does not take it, because no other GPU runs its PTX. The audit checks that the wheel has code for exactly
    these; with `linkage = "static"` it reports missing code only. `[]` means that nothing is compiled for them: the
    package calls CUDA's libraries, compiles at run time, or has kernels of toolchains with `targets`."""
    axes: Mapping[forms.AxisName, forms.AxisValues] = Field(
        default={}, examples=[{"torch": ["2.11", "2.15"]}]
    )
    """For this toolkit, only these values of `[axes]`."""
    ptx: forms.VirtualArchitecture | None = Field(default=None, examples=["90"])
    """Compute capability of the PTX to embed, for GPUs newer than those in `archs`. `90a` is refused: no newer GPU runs
    its PTX."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """`archs` and `ptx` together, once no "common" is in them: first all machine code, then PTX."""
        return targets(self.archs, self.ptx)


_VERSIONS = "<version>"  # the alias below: how the gathered tables are called in the errors' locations


def _refuse_unquoted(versions: Mapping[str, Any]) -> None:
    """Raise the error for `[cuda.13.0]`, which TOML reads as a table `0` inside `[cuda.13]`."""
    for key, table in versions.items():
        for minor, inner in table.items() if isinstance(table, Mapping) else ():
            if minor.isdecimal() and isinstance(inner, Mapping):
                raise wrong(
                    f"[cuda.{key}.{minor}] without quotes is a table {minor} inside [cuda.{key}]",
                    f'write [cuda."{key}.{minor}"]',
                    (key, minor),
                    names_subject=True,
                )


class Cuda(Table):
    """How the package uses CUDA. Each table `[cuda.<version>]` in it is one toolkit to build with. A package without
    CUDA, such as one for OpenCL alone, leaves it out and has `[build] cuda = false` or `[[objects]]`; its wheels have
    their plain name."""

    linkage: Linkage = Field(default="pip", examples=["pip"])
    """Where CUDA's libraries come from at run time. `pip` declares NVIDIA's wheels as dependencies, `bundle` copies the
    libraries into the wheel, `system` uses those of the machine, `static` links them in. [Linkage](linkage.md) compares
    them."""
    requires: Requires = Field(default="always", examples=["extra"])
    """How the wheel declares NVIDIA's wheels (`linkage = "pip"` only): `always`, or in an `extra` named for the CUDA
    major. With an extra, `pip install name[cuda12]` installs them, and `name[cuda12-local]` uses those of the
    machine."""
    libraries: Annotated[tuple[forms.Library, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """Toolkit libraries that the build needs in addition to the runtime, for their headers or for linking: `cublas`,
    `cufft`, `cufile`, `cupti`, `curand`, `cusolver`, `cusparse`, `npp`, `nvfatbin`, `nvjitlink`, `nvjpeg`, `nvml`,
    `nvptxcompiler`, `nvrtc`, `nvtx`, `profiler` and others. NVIDIA's libraries outside the toolkits come from their own
    packages on PyPI: `cudnn`, `cudss`, `cusparselt`, `cutensor`, `nccl`, `nvshmem`. An unknown name is an error that
    lists the known ones. Whether an installation, an image or NVIDIA's archives have a library is not known before
    the build."""
    versions: Mapping[str, CudaVersion] = Field(default={}, alias="<version>")
    """The toolkits, by the key of their table: a major (`13`) or major.minor (`"12.4"`)."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if _VERSIONS in data:
            raise wrong("expected a version", 'write, for example, [cuda.13] or [cuda."12.4"]', (_VERSIONS,))
        versions = {key: data[key] for key in data if re.search(forms.VERSION_KEY, key)}
        own = {key: data[key] for key in data if key not in versions}
        _refuse_unquoted(versions)
        for key, table in versions.items():
            if "." in key and isinstance(table, Mapping):
                versions[key] = {"toolkit": key, **table}
        return {**own, _VERSIONS: versions}
