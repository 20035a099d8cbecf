"""`[build]`: the project's own build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from packaging.utils import canonicalize_name
from pydantic import Discriminator, Field, StrictBool, Tag

from gpuforge.manifest import forms
from gpuforge.manifest.model.package import PypiSource
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import Distinct

Setting = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[tuple[str, ...], Tag("<array>")],
    Discriminator(lambda value: "<array>" if isinstance(value, list | tuple) else "<text>"),
]


class OverlaySdist(PypiSource):
    """An sdist on PyPI that is unpacked into `{overlay}`."""

    pypi: forms.PinnedRequirement = Field(examples=["ducc0==0.39.1"])
    """Name and exact version of the sdist to unpack."""
    sha256: forms.Sha256 = Field(
        examples=["38eda188733d43c3602726e28bc9928d3117cdc23b5c1e7d89fdc26004a1d847"]
    )
    """The sdist's sha256, as PyPI shows it. A file with another digest is refused."""

    @property
    def folder(self) -> str:
        """The name of its folder in `{overlay}`."""
        return canonicalize_name(self.release.project)


Overlay = Annotated[
    Annotated[forms.RelativePath, Tag("<folder>")] | Annotated[OverlaySdist, Tag("<pypi>")],
    Discriminator(lambda value: "<pypi>" if isinstance(value, Mapping | Table) else "<folder>"),
]


class CompilerCache(Table):
    """A compiler cache for several projects: sources that one has compiled, the others need not compile again.

    One project's build writes into the cache what another's build links. So the manifests must name each other: a
    project whose manifest does not name this one is left out, and a note reports it. A source is found in the cache if
    it lies at the same place in both projects. Compilers write paths into objects, so builds of projects with the same
    `name` run in the same folders, one after another.
    """

    name: forms.Name = Field(examples=["finufft"])
    """The same name in all manifests that share the cache."""
    with_: Annotated[tuple[forms.RelativePath, ...], Distinct] = Field(
        alias="with", examples=[["../cufinufft"]]
    )
    """Folders of the other manifests."""


class Build(Table):
    """The host build: the project's own PEP 517 build, in an environment that gpuforge controls.

    `config-settings`, `env` and `before` may use four placeholders: `{project}` is the source tree, `{overlay}` the
    folder with the content of the overlays, `{toolkit}` the CUDA toolkit, and `{env}` the build's Python environment,
    which is read-only in a container. Any other name in braces is an error; `${name}` stays as it is, and `{{name}}` is
    the text `{name}`. When gpuforge asks the backend for its requirements, `{overlay}` does not exist, and `before` has
    not run.
    """

    config_settings: Mapping[str, Setting] = Field(
        default={}, alias="config-settings", examples=[{"cmake.define.FINUFFT_ARCH_FLAGS": ""}]
    )
    """Settings for the project's build backend, as in `pip install --config-settings`. A list passes a setting several
    times."""
    env: Mapping[forms.Variable, str] = Field(default={}, examples=[{"CPM_SOURCE_CACHE": "{overlay}/cpm"}])
    """Environment variables of the build, in addition to those that gpuforge sets (`CC`, `CXX`, `CUDACXX`, …)."""
    overlay: Annotated[tuple[Overlay, ...], Distinct] = Field(default=(), examples=[["overlay"]])
    """Files that the build would otherwise download. A folder beside the manifest is copied into `{overlay}`. An sdist
    on PyPI, such as `{ pypi = "ducc0==0.39.1", sha256 = "…" }`, is fetched before the build and unpacked into a folder
    of its name: `{overlay}/ducc0`. Shared libraries there that the wheel needs, also those that `before` makes, are
    copied into it."""

    @property
    def overlay_folders(self) -> tuple[tuple[int, str], ...]:
        """The overlays that are folders, with their places in the list."""
        return tuple((n, each) for n, each in enumerate(self.overlay) if isinstance(each, str))

    @property
    def overlay_sdists(self) -> tuple[OverlaySdist, ...]:
        """The overlays that are sdists."""
        return tuple(each for each in self.overlay if isinstance(each, OverlaySdist))

    before: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(
        default=(), examples=[[["python", "tools/generate.py"]]]
    )
    """Commands that run in the source tree before the build, in order. Each is a list of words; no shell is
    involved."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["cmake<4"]])
    """Build requirements in addition to the project's own. If the project requires a package too, both ranges apply."""
    constraints: forms.RelativePath | None = Field(default=None, examples=["build-constraints.txt"])
    """A file beside the manifest with one requirement per line, optionally with hashes (`--hash=sha256:…`). It fixes
    the versions of all build requirements, indirect ones included. Options of pip and direct references
    (`name @ https://…`) are refused. Without it, each requirement is fetched once, at its newest version, and the store
    keeps it. The build record of a wheel lists the versions that were used."""
    compiler_cache: CompilerCache | None = Field(
        default=None, alias="compiler-cache", examples=[{"name": "finufft", "with": ["../cufinufft"]}]
    )
    """Projects that share their compiler cache. Default: each project has its own."""
    cuda: StrictBool = Field(default=True, examples=[False])
    """Whether the host build needs a CUDA toolkit. With `false` it gets none, and one build per Python serves the
    wheels of all CUDA versions. Kernels that gpuforge compiles are not affected."""
