"""Sources are built without their history: the version that git gives is left where setuptools-scm looks for it."""

import os
import subprocess
from pathlib import Path

import pytest

from gpuforge.actions.source import FetchSource, Revision
from gpuforge.plan import git_version
from gpuforge.plan.action import Workdir

SCM = '[build-system]\nrequires = ["setuptools", "setuptools-scm"]\n'


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *settings, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "pyproject.toml").write_text(SCM)
    git(root, "init", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "-m", "one")
    git(root, "tag", "v1.2")
    git(root, "tag", "latest")
    git(root, "commit", "--allow-empty", "-m", "two")
    git(root, "tag", "after")
    return root


@pytest.mark.thorough
@pytest.mark.parametrize(("revision", "described"), [("v1.2", "v1.2-0-g"), ("after", "v1.2-1-g")])
def test_a_revision_keeps_its_version(tmp_path, repository, revision, described):
    source = Revision(repository.as_uri(), revision)
    FetchSource(requested=source).run(Workdir(tmp_path, tmp_path))
    text = (tmp_path / "source" / git_version.FILE).read_text()
    assert f"\ndescribe-name: {described}" in text
    assert not (tmp_path / "source/.git").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("there", [False, True])
def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path, repository, there):
    """A repository that was made for it would have its tag's name written to a file of the user's."""
    users = tmp_path / "profile"
    if there:
        users.write_text("$Format:%H$\n")
    (repository / git_version.FILE).symlink_to(users)
    git(repository, "add", git_version.FILE)
    git(repository, "commit", "-m", "link")
    git(repository, "tag", "v2$(touch${IFS}x)")
    source = Revision(repository.as_uri(), "main")
    FetchSource(requested=source).run(Workdir(tmp_path, tmp_path))
    assert (tmp_path / "source" / git_version.FILE).is_symlink()
    assert users.exists() == there
    assert not there or users.read_text() == "$Format:%H$\n"


@pytest.mark.thorough
def test_a_project_that_does_not_ask_git_gets_no_file(tmp_path, repository):
    (repository / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools"]\n')
    git(repository, "commit", "-am", "no scm")
    git(repository, "tag", "plain")
    source = Revision(repository.as_uri(), "plain")
    FetchSource(requested=source).run(Workdir(tmp_path, tmp_path))
    assert sorted(path.name for path in (tmp_path / "source").iterdir()) == ["pyproject.toml"]


def test_a_folder_without_a_version_has_none(tmp_path, repository):
    assert git_version.described(tmp_path, os.environ) == ""
    git(repository, "tag", "-d", "v1.2")
    assert git_version.described(repository, os.environ) == ""
    git_version.write(tmp_path, "")
    assert not (tmp_path / git_version.FILE).exists()


def test_what_git_archive_filled_in_stays(tmp_path):
    file = tmp_path / git_version.FILE
    file.write_text("node: $Format:%H$\n")
    git_version.write(tmp_path, "v1-2-g0123abc")
    assert file.read_text() == "node: 0123abc\ndescribe-name: v1-2-g0123abc\n"
    git_version.write(tmp_path, "v9-0-gfff")
    assert file.read_text() == "node: 0123abc\ndescribe-name: v1-2-g0123abc\n"


@pytest.mark.thorough
def test_an_sdist_of_this_machine_is_unpacked(tmp_path):
    subprocess.run(
        ["tar", "czf", "stored", "--transform", "s,^,demo-1.0/,", "file"],
        check=True,
        cwd=_with_file(tmp_path),
    )
    step = FetchSource(sdist=tmp_path / "stored", name="demo-1.0.tar.gz")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    step.run(Workdir(scratch, tmp_path))
    assert (tmp_path / "source/file").read_text() == "text"


def _with_file(folder: Path) -> Path:
    (folder / "file").write_text("text")
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("folder", [".", ".git"])
def test_no_program_that_a_project_names_is_run_by_git(tmp_path, repository, folder):
    """git fetches what is missing, by a program that the repository names; any folder can be one."""
    project = tmp_path / "project"
    project.mkdir()
    git(tmp_path, "clone", "--bare", str(repository), str(project / folder))
    for each in (project / folder / "objects").rglob("*"):
        if each.is_file():
            each.unlink()
    ran = tmp_path / "ran"
    (project / folder / "config").write_text(f"""\
[core]
    repositoryformatversion = 1
    bare = {"true" if folder == "." else "false"}
    fsmonitor = "touch {ran} #"
[extensions]
    partialClone = origin
[remote "origin"]
    url = {repository}
    promisor = true
    uploadpack = "touch {ran} #"
""")
    assert git_version.described(project, os.environ) == ""
    assert not ran.exists()
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "describe", "--tags")
    assert ran.exists()  # so it was worth a test
