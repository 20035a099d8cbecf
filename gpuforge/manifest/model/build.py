"""`[build]`: the project's own build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, Field, StrictBool, Tag

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import Distinct

Setting = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[tuple[str, ...], Tag("<array>")],
    Discriminator(lambda value: "<array>" if isinstance(value, list | tuple) else "<text>"),
]


class Build(Table):
    """The host build: the project's own PEP 517 build, in an environment that gpuforge controls.

    In `config-settings`, `env` and `before`, `{project}` stands for the source tree, `{overlay}` for the folder that
    holds what is in the overlays, `{toolkit}` for the CUDA toolkit and `{env}` for the build's Python environment (in
    a container it can only be read). Any other name in braces is an error, but `${name}` stays as it is; `{{name}}`
    is the text `{name}`. When the backend is asked for its requirements there is only `{project}`, and neither `env`
    nor `before`.
    """

    config_settings: Mapping[str, Setting] = Field(
        default={}, alias="config-settings", examples=[{"cmake.define.FINUFFT_ARCH_FLAGS": ""}]
    )
    """Settings for the project's build backend, as after `pip install --config-settings`; a list gives a
    setting several times."""
    env: Mapping[forms.Variable, str] = Field(default={}, examples=[{"CPM_SOURCE_CACHE": "{overlay}/cpm"}])
    """Environment variables of the build, on top of those that gpuforge sets (`CC`, `CXX`, `CUDACXX`, …)."""
    overlay: Annotated[tuple[forms.RelativePath, ...], Distinct] = Field(default=(), examples=[["overlay"]])
    """Folders beside the manifest that are laid into the build environment: what the build would otherwise
    download."""
    before: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(
        default=(), examples=[[["python", "tools/generate.py"]]]
    )
    """Commands run in the source tree before the build, in order; each is a list of words, and no shell
    reads it."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["cmake<4"]])
    """Build requirements added to the project's own; a range restricts what the project asks for."""
    constraints: forms.RelativePath | None = Field(default=None, examples=["build-constraints.txt"])
    """A file beside the manifest with a requirement a line, and its hashes, if you like (`--hash=sha256:…`): the
    versions that build requirements get, also those of requirements' own. Options of pip and direct references
    (`name @ https://…`) are refused. Left out, they are the newest of the day on which they are first fetched; the
    store keeps them. The build record of a wheel names those that it was built with."""
    cuda: StrictBool = Field(default=True, examples=[False])
    """Whether the host build needs a CUDA toolkit. `false`: it is given none, and one build per Python serves the
    wheels of all CUDA versions. Kernels that gpuforge compiles have nothing to do with it."""
