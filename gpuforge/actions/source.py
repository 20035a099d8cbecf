"""The project's source, a folder of this machine or fetched, and the sdists of `[build] overlay`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpuforge import digest
from gpuforge.manifest.model import GitSource, OverlaySdist, PathSource, PypiSource
from gpuforge.plan import variables
from gpuforge.plan.action import ActionInput, FileInput, Handle, Input, P, Step, Workdir
from gpuforge.plan.context import PlanContext

OUTPUT = "source"


class Sdist(NamedTuple):
    """A source distribution of the package index: `requirement` is NAME==VERSION."""

    requirement: str
    sha256: str


class Revision(NamedTuple):
    """A commit, tag or branch of a git repository."""

    repository: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class FetchSource(Step[P]):
    """Fetch a source tree, or unpack a source distribution of this machine."""

    requested: Sdist | Revision | None = None
    sdist: P | None = None  # of this machine
    name: str = ""  # the file name of that

    def run(self: FetchSource[Path], at: Workdir) -> None:
        """Write the source tree; nothing is left there if it cannot be fetched completely."""
        from gpuforge.actions.sdist import download_sdist, unpack

        output = at.output(OUTPUT)
        match self.requested:
            case Revision(repository, revision):
                clone(repository, revision, output)
                return
            case Sdist(requirement, sha256):
                archive = download_sdist(requirement, sha256, at.scratch)
            case None:
                assert self.sdist is not None  # noqa: S101  the plan requests one of the three
                archive = at.scratch / self.name
                archive.symlink_to(self.sdist)
        unpack(archive, output, at.scratch)


def clone(repository: str, rev: str, output: Path) -> None:
    """Check out one revision of a git repository, submodules included, without its history.

    If the project takes its version from git, the version is written to a file.
    """
    import os
    import shutil
    import subprocess

    from gpuforge.errors import ActionError, MissingError
    from gpuforge.plan import git_version

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(output), *words], check=True)  # noqa: S607  the git that is on PATH

    output.mkdir()
    try:
        git("init", "--quiet")
        git("remote", "add", "origin", "--", repository)
        try:
            git("fetch", "--quiet", "--depth", "1", "origin", rev)
            git("checkout", "--quiet", "FETCH_HEAD")
        # not every server sends a single commit: fetch the history, then search it
        except subprocess.CalledProcessError:
            git("fetch", "--quiet", "--tags", "origin")
            git("checkout", "--quiet", rev)
        git("submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1")
        if git_version.is_needed(output / name for name in git_version.DECLARING):
            if (output / ".git" / "shallow").exists():
                git("fetch", "--quiet", "--tags", "--unshallow", "--filter=blob:none", "origin")
            git_version.write(output, git_version.described(output, os.environ))
    except FileNotFoundError as error:
        raise MissingError.of("git is not installed", hint="apt-get install git") from error
    except subprocess.CalledProcessError as error:
        raise ActionError.of(
            f"cannot fetch {rev} of {repository}", hint="git's output is above; check [package] source"
        ) from error
    shutil.rmtree(output / ".git")


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
    return context.add_step(
        FetchSource[Handle](requested=requested),
        None,
        id=name,
        kind="fetch",
        title=f"fetch {what}",
        outputs=(OUTPUT,),
        env=variables.fetch(),
        passes=variables.fetch_passes(context.environ),
    )


def _unpacked(context: PlanContext, file: Path) -> ActionInput:
    """Unpack an sdist of this machine."""
    return context.add_step(
        FetchSource[Handle](sdist=FileInput(file, digest.of_file(file)), name=file.name),
        None,
        id="source",
        kind="prepare",
        title=f"unpack the source {file.name}",
        outputs=(OUTPUT,),
        env=variables.fetch(),
    )
