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
    """What the wheels are called and which platform they promise."""

    naming: Annotated[tuple[Naming, ...], Field(min_length=1), Distinct] = Field(
        default=("suffix",), examples=[["suffix"]]
    )
    """How wheels for different CUDA majors are told apart: `suffix` (`name-cu12`), `local` (version `1.0+cu12`),
    `variant` (wheel variants) or `plain` (not at all). Each one listed gives a wheel."""
    kernels: Literal["inside", "own"] = Field(default="inside", examples=["own"])
    """Where the `fallback` objects that nvcc compiles go: `inside` the wheel, or into a wheel of their `own` for each
    CUDA major, `name-kernels-cu12`. Then the package's wheel is one for all CUDA versions and keeps its name, and
    `pip install name[cuda12]` brings the kernels with it. `own` needs `[build] cuda = false`."""
    image: Annotated[tuple[forms.Text, ...], Distinct, OneOrMany] = Field(
        default=(), examples=["manylinux_2_28", ["bookworm", "trixie"]]
    )
    """Container images of the build, for `--runner docker`: a manylinux policy, one of `gpuforge images list`, or any
    image's reference. Of several, each cell is built in the first that has its Python and a compiler that its toolkit
    takes, and `gpuforge matrix --format json` names that one; kernels are compiled in the first with such a compiler,
    and a host build without CUDA runs where the C library is the oldest. A build in local processes is not bound by
    it, and says so when its wheel needs a newer platform than a policy named here (`manylinux_2_28`) promises."""
    size_limit: forms.Size | None = Field(default=None, alias="size-limit", examples=["100 MB"])
    """Largest size a wheel may have; MB is 10⁶ bytes, MiB 2²⁰."""
    exclude: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["gomp"]])
    """Libraries that are not put into the wheel although its files need them: `gomp` of `libgomp.so.1`. The process
    that loads the wheel's files has them, or the user's machine: a runtime that users' own builds bring, too, would be
    in the process twice under a hashed name. The audit still reports a library that nothing provides."""

    @property
    def size_limit_bytes(self) -> int | None:
        """The largest size of a wheel in bytes, or None when there is no limit."""
        return None if self.size_limit is None else size_in_bytes(self.size_limit)
