"""The project's source: a folder of this machine, or what is fetched."""

from __future__ import annotations

from pathlib import Path

from gpuforge.manifest.model.package import GitSource, PypiSource
from gpuforge.plan import variables
from gpuforge.plan.action import Input
from gpuforge.plan.lower.context import Context
from gpuforge.plan.requests.source import FetchSource, Revision, Sdist


def source(context: Context) -> Input:
    """Return the source tree."""
    if context.tree is not None:
        return context.tree
    wanted = context.file.manifest.package.source
    requested: Sdist | Revision
    if isinstance(wanted, PypiSource):
        what, requested = wanted.pypi, Sdist(wanted.pypi, wanted.sha256)
    else:
        assert isinstance(wanted, GitSource)  # noqa: S101  the manifest has these three
        what, requested = f"{wanted.git} at {wanted.rev}", Revision(wanted.git, wanted.rev)
    return context.add_step(
        FetchSource(source=requested, scratch=Path("${work}"), output=Path("${out:source}")),
        None,
        "source",
        id="source",
        kind="fetch",
        title=f"fetch the source {what}",
        outputs=("source",),
        env=variables.fetch(),
        passes=variables.fetch_passes(),
        network=True,
        cells=context.users(),
    )
