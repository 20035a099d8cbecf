"""The whole of `gpuforge.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gpuforge.manifest import forms
from gpuforge.manifest.model.audit import Audit
from gpuforge.manifest.model.build import Build
from gpuforge.manifest.model.cuda import Cuda
from gpuforge.manifest.model.object import Object
from gpuforge.manifest.model.package import Package
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.model.test import Test
from gpuforge.manifest.model.toolchain import DeclaredToolchain
from gpuforge.manifest.model.wheel import Wheel
from gpuforge.manifest.validators import wrong


def _known_schema(value: object) -> object:
    if type(value) is int and value != 1:
        raise wrong(
            f"this gpuforge reads schema 1, not {value if abs(value) < 10**6 else '…'}",
            "upgrade gpuforge, or write schema = 1",
        )
    if type(value) is not int:
        raise wrong("expected the number of the schema", "write schema = 1")
    return value


class Manifest(Table):
    """A GPU Python package: its sources, toolchains and toolkits, and the content of its wheels."""

    schema_version: Annotated[Literal[1], BeforeValidator(_known_schema)] = Field(
        alias="schema", examples=[1]
    )
    """Version of this format; always 1."""
    package: Package
    axes: Mapping[forms.AxisName, forms.AxisValues] = Field(
        default={}, examples=[{"torch": ["2.11", "2.15"]}]
    )
    """Dimensions of your own, each with its values: `torch = ["2.11", "2.15"]`. Each combination of values gets wheels
    of its own, except along the axes in `[wheel] spans`. `{torch}` is the value, and `{torch-next}` the version after
    it: `"torch>={torch},<{torch-next}"`. They may be used in `[package] name`; `[build] requires`, `constraints`,
    `config-settings`, `env`, `before` and `overlay`; the `flags` of toolchains and objects; `[wheel] requires` and
    `provided-by`; `[test] requires`, `command` and `extras`; and `[audit] beside`. With `naming = ["local"]` the wheels
    have the values in their versions: `1.0+cu13.torch2.11`. [Axes](axes.md) has examples."""
    build: Build = Build()
    toolchains: Mapping[forms.Name, DeclaredToolchain] = {}
    """The compilers that objects name, each under a name of your choice. The host build uses the toolchain
    `host`, otherwise the only C++ toolchain. Without any, it uses g++ or another compiler that fits the toolkit."""
    cuda: Cuda = Cuda()
    objects: tuple[Object, ...] = ()
    wheel: Wheel = Wheel()
    audit: Audit = Audit()
    test: Test = Test()

    @property
    def host_cuda(self) -> bool:
        """Whether the host build gets a CUDA toolkit; without `[cuda]` there is none."""
        return self.build.cuda and bool(self.cuda.versions)

    def toolchain_of(self, item: Object) -> DeclaredToolchain:
        """Return the toolchain of a fallback, which always names one."""
        return self.toolchains[item.toolchain or ""]
