"""The project's source, a folder of this machine or fetched, and the sdists of `[build] overlay`."""

from __future__ import annotations

from pathlib import Path

from gpuforge import digest
from gpuforge.manifest.model import GitSource, OverlaySdist, PathSource, PypiSource
from gpuforge.plan import variables
from gpuforge.plan.action import ActionInput, FileInput, Input
from gpuforge.plan.lower.plan_context import PlanContext
from gpuforge.plan.requests.source import FetchSource, LocalSdist, Revision, Sdist


def source(context: PlanContext) -> Input:
    """Return the source tree."""
    if context.tree is not None:
        return context.tree
    declared = context.file.manifest.package.source
    if isinstance(declared, PypiSource):
        return _fetched(
            context, Sdist(declared.pypi, declared.sha256), "source", f"the source {declared.pypi}"
        )
    if isinstance(declared, PathSource):
        return _unpacked(context, (context.file.folder / declared.path).resolve())
    assert isinstance(declared, GitSource)  # noqa: S101  the manifest has these three
    what = f"the source {declared.git} at {declared.rev}"
    return _fetched(context, Revision(declared.git, declared.rev), "source", what)


def sdist(context: PlanContext, release: OverlaySdist) -> ActionInput:
    """Return an unpacked sdist of `[build] overlay`."""
    return _fetched(context, Sdist(release.pypi, release.sha256), f"overlay/{release.folder}", release.pypi)


def _fetched(context: PlanContext, requested: Sdist | Revision, name: str, what: str) -> ActionInput:
    title = f"fetch {what}"
    return context.add_request(
        _request(requested),
        None,
        id=name,
        kind="fetch",
        title=title,
        outputs=("source",),
        env=variables.fetch(),
        passes=variables.fetch_passes(context.environ),
        network=True,
        cells=context.users(),
    )


def _unpacked(context: PlanContext, file: Path) -> ActionInput:
    """Unpack an sdist of this machine."""
    inputs = {"sdist": FileInput(file, digest.of_file(file))}
    requested = LocalSdist(Path("${in:sdist}"), file.name)
    title = f"unpack the source {file.name}"
    return context.add_request(
        _request(requested),
        None,
        id="source",
        kind="prepare",
        title=title,
        inputs=inputs,
        outputs=("source",),
        env=variables.fetch(),
        cells=context.users(),
    )


def _request(requested: Sdist | LocalSdist | Revision) -> FetchSource:
    return FetchSource(source=requested, scratch=Path("${work}"), output=Path("${out:source}"))
