"""`[cuda]` and `[cuda.<version>]`: linkage, toolkits and architectures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import CommonOrMany, Distinct, wrong

Linkage = Literal["pip", "bundle", "system", "static"]
Requires = Literal["always", "extra"]
Provider = Literal["image", "system", "pypi", "debian", "redist"]


class CudaVersion(Table):
    """One CUDA toolkit, and the architectures to build for with it."""

    toolkit: forms.ToolkitVersion = Field(examples=["12.4"])
    """Version of the toolkit, `major.minor`. A table named `[cuda."12.4"]` need not repeat it."""
    provider: Provider | None = Field(default=None, examples=["pypi"])
    """Where the toolkit comes from: the container `image`; NVIDIA's wheels on `pypi` (CUDA 13 on); the `system`, an
    installation of exactly this version; `debian`, its compiler with NVIDIA's wheels (11.8 and 12.4);
    NVIDIA's `redist` archives (11.4 to 13.0). Left out, the first in this order that has it; `gpuforge build --dry-run`
    says which. GPUFORGE_DEBIAN_MIRROR and GPUFORGE_REDIST_URL name other servers."""
    archs: Annotated[tuple[forms.Architecture, ...], Distinct, CommonOrMany] = Field(
        examples=[["80", "90"], "common"]
    )
    """Compute capabilities to compile for. `common` stands for the least that every GPU of the toolkit runs: machine
    code for the lowest of each major, and PTX of the lowest of all ([a table](kernels.md#archs--common)). `90a` and
    `100f` are architecture- and family-specific; `+ptx` adds an image that newer GPUs can compile for themselves, but
    not to `90a`, which only that architecture runs. The wheel must have code for exactly these, or the audit says so;
    with `linkage = "static"` only of what is missing. `[]`: the package has no GPU code of its own, it only calls
    CUDA's libraries or compiles at run time."""
    ptx: forms.VirtualArchitecture | None = Field(default=None, examples=["90"])
    """Compute capability of the PTX to embed, for GPUs newer than any in `archs`; `90a` is refused, as no newer
    GPU runs it."""


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
                )


class Cuda(Table):
    """How the package meets CUDA; each table `[cuda.<version>]` in it is one toolkit to build with."""

    linkage: Linkage = Field(default="pip", examples=["pip"])
    """Where CUDA's libraries come from at run time: `pip` declares NVIDIA's wheels as dependencies,
    `bundle` copies the libraries into the wheel, `system` uses what the machine has, `static` links them
    in. [Linkage](linkage.md) compares them."""
    requires: Requires = Field(default="always", examples=["extra"])
    """How the wheel declares NVIDIA's wheels (`linkage = "pip"` only): `always`, or by an `extra` named for the CUDA
    major. Then `pip install name[cuda12]` brings them, and `name[cuda12-local]` says that the machine has them."""
    libraries: Annotated[tuple[forms.Library, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """Toolkit libraries that the build needs besides the runtime, for their headers or to link with: `cublas`, `cufft`,
    `cufile`, `cupti`, `curand`, `cusolver`, `cusparse`, `npp`, `nvfatbin`, `nvjitlink`, `nvjpeg`, `nvml`,
    `nvptxcompiler`, `nvrtc`, `nvtx`, `profiler` and others. A name that is not known of the toolkit is an error that
    lists the known ones; of an installation, an image and NVIDIA's archives it is not known beforehand."""
    versions: Mapping[str, CudaVersion] = Field(default={}, alias="<version>")
    """The toolkits, by the key of their table: a major (`13`) or major.minor (`"12.4"`)."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if _VERSIONS in data:
            raise wrong(
                "a version is wanted here", 'write, for example, [cuda.13] or [cuda."12.4"]', (_VERSIONS,)
            )
        versions = {key: data[key] for key in data if re.search(forms.VERSION_KEY, key)}
        own = {key: data[key] for key in data if key not in versions}
        _refuse_unquoted(versions)
        for key, table in versions.items():
            if "." in key and isinstance(table, Mapping):
                versions[key] = {"toolkit": key, **table}
        return {**own, _VERSIONS: versions}
