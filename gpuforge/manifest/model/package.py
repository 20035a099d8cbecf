"""`[package]` and its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import Distinct
from gpuforge.release import Release


class PathSource(Table):
    """A folder or an sdist on this machine."""

    path: forms.Text = Field(examples=["."])
    """Folder with the project's `pyproject.toml`, relative to the manifest's folder. Version control, environments and
    caches are left out of the build, and so are `build`, `dist` and `wheelhouse` at the top of the folder. Or an sdist:
    a file such as `dist/demo-1.0.tar.gz`."""


class PypiSource(Table):
    """An sdist on PyPI."""

    pypi: forms.PinnedRequirement = Field(examples=["cufinufft==2.5.1"])
    """Name and exact version of the release whose sdist is built."""
    sha256: forms.Sha256 = Field(
        examples=["f12849b91674d049543cb963c94c0ee60e8e34e1bbad5e32fefe12961b0621b4"]
    )
    """The sdist's sha256, as PyPI shows it. A file with another digest is refused."""

    @property
    def release(self) -> Release:
        """The release, named as in the manifest."""
        return Release.of_pin(self.pypi)


class GitSource(Table):
    """A revision of a git repository."""

    git: forms.GitUrl = Field(examples=["https://github.com/flatironinstitute/finufft"])
    """The repository's URL."""
    rev: forms.GitRevision = Field(examples=["v2.5.1"])
    """The commit (full or short) or tag to build."""


def _source_tag(value: Any) -> str | None:
    if isinstance(value, Table):
        return {PathSource: "<path>", PypiSource: "<pypi>", GitSource: "<git>"}[type(value)]
    if not isinstance(value, Mapping):
        return "<path>"
    tags = [f"<{key}>" for key in ("path", "pypi", "git") if key in value]
    return tags[0] if len(tags) == 1 else None


_EXACTLY_ONE = {
    "message": "[package.source] needs exactly one of `path`, `pypi` and `git`",
    "hint": '{ path = "." } · { pypi = "name==1.0", sha256 = "…" } · { git = "https://…", rev = "…" }',
    "at": (),
    "names_subject": True,
}
Source = Annotated[
    Annotated[PathSource, Tag("<path>")]
    | Annotated[PypiSource, Tag("<pypi>")]
    | Annotated[GitSource, Tag("<git>")],
    Discriminator(
        _source_tag,
        custom_error_type="form",
        custom_error_message="{message}",
        custom_error_context=_EXACTLY_ONE,
    ),
]


class Package(Table):
    """What is built, from which sources, and for which Python versions."""

    name: forms.PackageName = Field(examples=["cufinufft"])
    """Name of the distribution; `[wheel] naming` may append the CUDA major to it."""
    source: Source = Field(default=PathSource(path="."), examples=[{"path": "."}])
    """Where the sources come from: exactly one of `path`, `pypi` (with `sha256`) and `git` (with `rev`)."""
    python: Annotated[tuple[forms.PythonVersion, ...], Distinct] = Field(
        default=(), examples=[["3.11", "3.12"]]
    )
    """Python versions to build wheels for, one wheel each; `3.10` is the oldest. With `abi = "abi3"`, give exactly one:
    the lowest version that the wheel supports, which may be older than 3.10. With `abi = "none"`, give at most one: the
    oldest version that may build the wheel. A build looks for `python3.N`, with its headers, on PATH, in `/opt/python`
    and among the versions of pyenv and uv (`uv python install 3.14`); in a container, in the image. If one is missing,
    the other cells are built and the exit status is 3; `--allow-missing` makes it 0."""
    abi: Literal["abi3", "none"] | None = Field(default=None, examples=["abi3"])
    """Set this if one wheel serves many Python versions: `abi3` for extensions of the limited API, `none` for wheels
    without extension modules."""
    import_: forms.ImportName = Field(
        default_factory=lambda seen: str(seen.get("name", "")).replace("-", "_"),
        alias="import",
        examples=["cufinufft"],
    )
    """Import package that receives the kernels and the runtime. Default: `name` with `-` replaced by `_`."""
    c_header: bool = Field(default=False, alias="c-header", examples=[True])
    """Put the header `gpuforge_kernels.h` into the wheel, by which programs in C and C++ find and load its kernels
    ([C programs](kernels.md#c-and-c-programs))."""
