"""The project's source, a folder of this machine or what is fetched, and the sdists of `[build] overlay`."""

from __future__ import annotations

from pathlib import Path

from gpuforge.manifest.model.package import GitSource, PypiSource
from gpuforge.plan import variables
from gpuforge.plan.action import ActionInput, Input
from gpuforge.plan.lower.context import Context
from gpuforge.plan.requests.source import FetchSource, Revision, Sdist


def source(context: Context) -> Input:
    """Return the source tree."""
    if context.tree is not None:
        return context.tree
    wanted = context.file.manifest.package.source
    if isinstance(wanted, PypiSource):
        return _fetched(context, Sdist(wanted.pypi, wanted.sha256), "source", f"the source {wanted.pypi}")
    assert isinstance(wanted, GitSource)  # noqa: S101  the manifest has these three
    what = f"the source {wanted.git} at {wanted.rev}"
    return _fetched(context, Revision(wanted.git, wanted.rev), "source", what)


def sdist(context: Context, wanted: PypiSource) -> ActionInput:
    """Return an unpacked sdist of `[build] overlay`."""
    return _fetched(context, Sdist(wanted.pypi, wanted.sha256), f"overlay/{wanted.folder}", wanted.pypi)


def _fetched(context: Context, requested: Sdist | Revision, name: str, what: str) -> ActionInput:
    return context.add_step(
        FetchSource(source=requested, scratch=Path("${work}"), output=Path("${out:source}")),
        None,
        "source",
        id=name,
        kind="fetch",
        title=f"fetch {what}",
        outputs=("source",),
        env=variables.fetch(),
        passes=variables.fetch_passes(),
        network=True,
        cells=context.users(),
    )
