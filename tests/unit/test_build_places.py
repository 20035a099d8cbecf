"""Where a build writes is looked at before anything runs: exit 3, and the option or variable is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuforge.cli.main import run
from gpuforge.manifest.load import ManifestFile


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Build = Callable[..., Ended]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Build:
    """Plan a build with options and environment variables."""

    def call(file: ManifestFile, *options: str, **environ: str) -> Ended:
        monkeypatch.chdir(file.folder)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return Ended(run(["build", str(file.folder), "--dry-run", *options]), *capfd.readouterr())

    return call


def test_all_errors_are_reported_at_once(
    recipe: Callable[..., ManifestFile], build: Build, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    file = recipe()
    dist, cache, work = tmp_path / "file/dist", tmp_path / "file/cache", tmp_path / "my work"
    done = build(file, "-o", str(dist), GPUFORGE_CACHE_DIR=str(cache), GPUFORGE_WORK=str(work))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"error: the output folder {dist} cannot be written to: {tmp_path}/file is a file\n"
        "  hint: choose another folder with --output (-o), or change who may write there\n"
        f"error: the cache folder {cache}, which GPUFORGE_CACHE_DIR names, cannot be used: {tmp_path}/file is a file\n"
        "  hint: set GPUFORGE_CACHE_DIR to a folder of your own\n"
        f"error: the working directory {work}, named by GPUFORGE_WORK, cannot be used: "
        "it has a space in its path, which breaks many builds\n"
        "  hint: set GPUFORGE_WORK to a folder of plain letters and digits\n"
        "3 errors\n"
    )
    assert not work.exists()


def test_another_users_cache(recipe: Callable[..., ManifestFile], build: Build, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("giving a folder away needs root's rights")
    cache = tmp_path / "cache"
    cache.mkdir()
    os.chown(cache, 4711, -1)
    done = build(recipe(), GPUFORGE_CACHE_DIR=str(cache))
    assert done.returncode == 3
    assert done.stderr == (
        f"error: the cache folder {cache}, which GPUFORGE_CACHE_DIR names, cannot be used: "
        "it belongs to another user (uid 4711)\n"
        "  hint: set GPUFORGE_CACHE_DIR to a folder of your own\n"
    )
    assert list(cache.iterdir()) == []


def test_folders_without_permission(
    recipe: Callable[..., ManifestFile], build: Build, tmp_path: Path
) -> None:
    if not os.geteuid():
        pytest.skip("root may write everywhere")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    done = build(recipe(), "-o", str(closed / "dist"))
    assert done.returncode == 3
    assert (
        f"the output folder {closed}/dist cannot be written to: {closed} may not be written to\n"
        in done.stderr
    )


def test_folders_where_root_cannot_make_any_either(
    recipe: Callable[..., ManifestFile], build: Build, tmp_path: Path
) -> None:
    (tmp_path / "dist").symlink_to(tmp_path / "gone")
    done = build(
        recipe(), "-o", str(tmp_path / "dist"), GPUFORGE_CACHE_DIR="/proc/c", GPUFORGE_WORK="/proc/w"
    )
    why = (
        "no folder can be made in /proc: No such file or directory"
        if not os.geteuid()
        else "/proc may not be written to"
    )
    assert done.returncode == 3
    assert done.stderr == (
        f"error: the output folder {tmp_path}/dist cannot be written to: {tmp_path}/dist is a link to nothing\n"
        "  hint: choose another folder with --output (-o), or change who may write there\n"
        f"error: the cache folder /proc/c, which GPUFORGE_CACHE_DIR names, cannot be used: {why}\n"
        "  hint: set GPUFORGE_CACHE_DIR to a folder of your own\n"
        f"error: the working directory /proc/w, which GPUFORGE_WORK names, cannot be used: {why}\n"
        "  hint: set GPUFORGE_WORK to a folder of your own\n"
        "3 errors\n"
    )
