"""Fetching sources: from an index (a real HTTP server of this test) and from git; broken ones leave nothing."""

from __future__ import annotations

import functools
import hashlib
import io
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Index:
    """A package index in a folder: `simple/NAME/` pages beside the files."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    def add(self, name: str, content: bytes, *, sha256: str | None = None) -> str:
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "files").mkdir(exist_ok=True)
        (self.folder / "files" / name).write_bytes(content)
        page = self.folder / "simple" / name.rpartition("-")[0] / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<a href="/files/{name}#sha256={sha256 or digest}">{name}</a>')
        return digest


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    folder = tmp_path / "index"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Index(folder, f"http://127.0.0.1:{server.server_port}/simple/")
    server.shutdown()
    thread.join()
    server.server_close()


def sdist(*members: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members or (("demo-1.0/pyproject.toml", b"[project]\n"),):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def fetch(tmp_path: Path, *arguments: str, index: str | None = None) -> subprocess.CompletedProcess[str]:
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-m", "gpuforge.steps.fetch_source", *arguments]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "no_proxy": "*"}
    if index:
        env["PIP_INDEX_URL"] = index
    places = ["--output", str(tmp_path / "source"), "--scratch", str(tmp_path / "work")]
    return subprocess.run([*command, *places], capture_output=True, text=True, check=False, env=env)


def test_an_sdist_arrives_unpacked_and_checked(tmp_path: Path, index: Index) -> None:
    digest = index.add("demo-1.0.tar.gz", sdist())
    done = fetch(tmp_path, "--pypi", "demo==1.0", "--sha256", digest, index=index.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "source" / "pyproject.toml").read_text() == "[project]\n"


def test_broken_sources(tmp_path: Path, index: Index) -> None:
    whole = sdist()
    cases = {
        "another-1.0.tar.gz": (whole, "0" * 64, None, "but the manifest says 0000"),
        "torn-1.0.tar.gz": (whole[: len(whole) // 2], None, None, "torn-1.0.tar.gz is not a sound sdist"),
        "noise-1.0.tar.gz": (
            b"<html>sign in first</html>",
            None,
            None,
            "noise-1.0.tar.gz is not a sound sdist",
        ),
        "swapped-1.0.tar.gz": (whole, None, "1" * 64, "the download of swapped==1.0 arrived broken"),
        "twofold-1.0.tar.gz": (sdist(("a/x", b""), ("b/x", b"")), None, None, "is not a sound sdist"),
        "climbing-1.0.tar.gz": (sdist(("demo/../../x", b"")), None, None, "is not a sound sdist"),
    }
    for name, (content, wanted, listed, message) in cases.items():
        digest = index.add(name, content, sha256=listed)
        folder = tmp_path / name
        folder.mkdir()
        requirement = f"{name.rpartition('-')[0]}==1.0"
        done = fetch(folder, "--pypi", requirement, "--sha256", wanted or digest, index=index.url)
        assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (1, True, False), (
            done.stderr
        )
        assert not (folder / "source").exists()
        assert not (folder / "x").exists()


def test_a_version_that_is_not_there_names_those_that_are(tmp_path: Path, index: Index) -> None:
    index.add("demo-1.0.tar.gz", sdist())
    done = fetch(tmp_path, "--pypi", "demo==2.0", index=index.url)
    assert done.returncode == 1
    assert done.stderr == (f"error: {index.url} has no source distribution of demo 2.0\n  hint: it has 1.0\n")


def test_an_unknown_project(tmp_path: Path, index: Index) -> None:
    done = fetch(tmp_path, "--pypi", "demo==1.0", index=index.url)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: {index.url} has no project demo\n  hint: check [package] source\n",
    )


def test_no_index_in_reach(tmp_path: Path) -> None:
    done = fetch(tmp_path, "--pypi", "demo==1.0", index="http://127.0.0.1:9/simple/")
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot reach the package index http://127.0.0.1:9/simple/")
    assert "Traceback" not in done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def test_a_git_revision_comes_without_its_history(tmp_path: Path, repository: Path) -> None:
    done = fetch(tmp_path, "--git", str(repository), "--rev", "v1")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "source").iterdir()] == ["pyproject.toml"]


def test_a_short_commit_is_found_too(tmp_path: Path, repository: Path) -> None:
    short = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    )
    assert fetch(tmp_path, "--git", str(repository), "--rev", short.stdout.strip()).returncode == 0


def test_a_git_revision_that_is_not_there(tmp_path: Path, repository: Path) -> None:
    done = fetch(tmp_path, "--git", str(repository), "--rev", "v2")
    assert done.returncode == 1
    assert f"error: cannot fetch v2 of {repository}" in done.stderr
    assert "Traceback" not in done.stderr
