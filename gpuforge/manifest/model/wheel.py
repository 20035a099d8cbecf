"""`[wheel]`: names and platform of the wheels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.sizes import size_in_bytes
from gpuforge.manifest.validators import Distinct, OneOrMany

Naming = Literal["suffix", "local", "variant", "plain"]


class Wheel(Table):
    """Names of the wheels, and the platform that they promise."""

    naming: Annotated[tuple[Naming, ...], Field(min_length=1), Distinct] = Field(
        default=("suffix",), examples=[["suffix"]]
    )
    """How wheels for different CUDA majors are named: `suffix` (`name-cu12`), `local` (version `1.0+cu12`), `variant`
    (wheel variants) or `plain` (all alike). Each entry produces a wheel."""
    kernels: Literal["inside", "own"] = Field(default="inside", examples=["own"])
    """Where `fallback` objects that nvcc compiles go: `inside` the wheel, or into a wheel of their `own` for each CUDA
    major, `name-kernels-cu12`. With `own`, the package has one wheel for all CUDA versions under its plain name, and
    `pip install name[cuda12]` also installs the kernels. `own` needs `[build] cuda = false`."""
    front: forms.DistributionName | None = Field(default=None, examples=["cufinufft-cuda"])
    """Name of one more distribution for all CUDA majors. Its wheel has no files; `pip install cufinufft-cuda[cuda12]`
    installs `cufinufft-cu12` of the same version. With `[cuda] requires = "extra"` it also has `[cuda12-local]`, which
    leaves CUDA's libraries to the machine. Without an extra it installs nothing. Needs the naming `suffix`."""
    image: Annotated[tuple[forms.Text, ...], Distinct, OneOrMany] = Field(
        default=(), examples=["manylinux_2_28", ["bookworm", "trixie"]]
    )
    """Container images for the build with `--runner docker`: a manylinux policy, a name from `gpuforge images list`, or
    any image reference. With several, each cell is built in the first image that has its Python and a compiler that
    fits its toolkit; `gpuforge matrix --format json` shows which. Kernels are compiled in the first image with such a
    compiler. A host build without CUDA uses the image with the oldest C library. Builds without containers use no
    image, but report a wheel that needs a newer platform than a policy listed here (`manylinux_2_28`)."""
    size_limit: forms.Size | None = Field(default=None, alias="size-limit", examples=["100 MB"])
    """Largest size of a wheel. MB is 10⁶ bytes, MiB 2²⁰."""
    exclude: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["gomp"]])
    """Libraries that are not copied into the wheel although its files need them: `gomp` for `libgomp.so.1`. The user's
    process or machine must have them. Use it for a runtime that users' own builds also load: a copy in the wheel has a
    hashed name, and the process would load both. The audit still reports a library that nothing provides."""

    spans: Annotated[tuple[forms.AxisName, ...], Distinct] = Field(default=(), examples=[["torch"]])
    """Axes along which one wheel serves all values. It is built with the first value and tested with each. The
    wheel must keep to a stable ABI of that package ([axes](axes.md))."""
    provided_by: Annotated[tuple[forms.DistributionName, ...], Distinct] = Field(
        default=(), alias="provided-by", examples=[["torch"]]
    )
    """Packages whose libraries the wheel uses at run time. The build environment must have them (`[build] requires`).
    Their libraries are not copied into the wheel. Each file that needs one finds it by its RUNPATH. The wheel requires
    the package in the release series that it was built with (`torch>=2.15,<2.16`), and imports it first. `torch` need
    not be listed."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["torch>=2.11"]])
    """Requirements that the wheel declares in addition to the project's own. A package in `provided-by` is
    then required in this range instead of the release series."""

    @property
    def size_limit_bytes(self) -> int | None:
        """The largest size of a wheel in bytes, or None when there is no limit."""
        return None if self.size_limit is None else size_in_bytes(self.size_limit)
