"""The project's source, a folder of this machine or what is fetched, and the sdists of `[build] overlay`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuforge import digest
from gpuforge.manifest.model.package import GitSource, PathSource, PypiSource
from gpuforge.plan import variables
from gpuforge.plan.action import ActionInput, FileInput, Input
from gpuforge.plan.lower.context import Context
from gpuforge.plan.requests.source import FetchSource, LocalSdist, Revision, Sdist


def source(context: Context) -> Input:
    """Return the source tree."""
    if context.tree is not None:
        return context.tree
    wanted = context.file.manifest.package.source
    if isinstance(wanted, PypiSource):
        return _fetched(context, Sdist(wanted.pypi, wanted.sha256), "source", f"the source {wanted.pypi}")
    if isinstance(wanted, PathSource):
        return _unpacked(context, (context.file.folder / wanted.path).resolve())
    assert isinstance(wanted, GitSource)  # noqa: S101  the manifest has these three
    what = f"the source {wanted.git} at {wanted.rev}"
    return _fetched(context, Revision(wanted.git, wanted.rev), "source", what)


def sdist(context: Context, wanted: PypiSource) -> ActionInput:
    """Return an unpacked sdist of `[build] overlay`."""
    return _fetched(context, Sdist(wanted.pypi, wanted.sha256), f"overlay/{wanted.folder}", wanted.pypi)


def _fetched(context: Context, requested: Sdist | Revision, name: str, what: str) -> ActionInput:
    title = f"fetch {what}"
    network: dict[str, Any] = {"passes": variables.fetch_passes(), "network": True}
    return _add(context, requested, id=name, kind="fetch", title=title, **network)


def _unpacked(context: Context, file: Path) -> ActionInput:
    """Unpack an sdist of this machine."""
    inputs = {"sdist": FileInput(file, digest.of_file(file))}
    requested = LocalSdist(Path("${in:sdist}"), file.name)
    title = f"unpack the source {file.name}"
    return _add(context, requested, id="source", kind="prepare", title=title, inputs=inputs)


def _add(context: Context, requested: Sdist | LocalSdist | Revision, **fields: Any) -> ActionInput:
    return context.add_step(
        FetchSource(source=requested, scratch=Path("${work}"), output=Path("${out:source}")),
        None,
        "source",
        outputs=("source",),
        env=variables.fetch(),
        cells=context.users(),
        **fields,
    )
