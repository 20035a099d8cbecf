"""Builds on the user's machine, and the kernel cache, when a disk is full or read-only: small ones, mounted for it."""

import contextlib
import os
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from library_samples import answer, install, run, toolchain

from gpuforge.runtime.cache import CacheFolder, CacheKey, KernelCache

pytestmark = pytest.mark.toolkit
KIB = 1024


def mount(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = mount("-t", "tmpfs", "-o", f"size={KIB}k,mode=755", "tmpfs", folder)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(tmp_path / "site", toolchain("host", "g++"))
    return tmp_path / "site"


def fill(disk: Path, free: int) -> None:
    """Write a file that leaves so many bytes free."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(handle, bytes(4 * KIB)):
            pass
    os.ftruncate(handle, max(0, os.fstat(handle).st_size - free))
    os.close(handle)


def test_a_full_disk_keeps_the_old_build_whatever_was_written_last(site, disk):
    """With more and more room the compilation fails later and later: in the sources, the compiler, the activation."""
    env = {"GPUFORGE_KERNEL_HOME": str(disk)}
    assert run(site, "compile", **env).returncode == 0
    (place,) = (disk / "user/demo").iterdir()
    before = (place / "active.json").read_bytes()
    told = set()
    for free in (0, 8, 12, 16, 24, 32, 40, 48, 56, 64, 128, 400):
        fill(disk, free * KIB)
        done = run(site, "compile", **env)
        assert answer(site, **env) == 42
        assert [path.name for path in place.glob("work-*")] == []
        if done.returncode == 0:
            before = (place / "active.json").read_bytes()
            continue
        told.add(done.stderr.partition(": ")[2])
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "No space left on device" in done.stderr, done.stderr
        assert (place / "active.json").read_bytes() == before
    assert done.returncode == 0
    assert len(told) > 1


def test_a_disk_that_became_read_only_is_one_line_and_the_build_is_used(site, disk):
    env = {"GPUFORGE_KERNEL_HOME": str(disk)}
    assert run(site, "compile", **env).returncode == 0
    assert mount("-o", "remount,ro", disk).returncode == 0
    for command in (["compile"], ["compile", "--remove"]):
        done = run(site, *command, **env)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "Read-only file system; nothing was changed. GPUFORGE_KERNEL_HOME names another" in done.stderr
    assert answer(site, **env) == 42


def test_a_cache_on_a_full_disk_is_one_warning(disk):
    cache = KernelCache(CacheFolder(disk / "cache", KIB**2), limit=KIB**2)
    keys = [CacheKey.of(b"%d" % number, toolchain="nvrtc 13.0", arch="sm_90") for number in range(3)]
    assert cache.obtain(keys[0], lambda: b"first") == b"first"
    fill(disk, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert [cache.obtain(key, lambda: b"x" * 50_000) for key in keys[1:]] == [b"x" * 50_000] * 2
    assert [str(warning.message) for warning in caught] == [
        f"compiled kernels are kept in memory only: {disk}/cache: No space left on device. "
        "Set GPUFORGE_KERNEL_HOME to a folder that you can write."
    ]
    assert cache.obtain(keys[0], lambda: b"again") == b"first"
    assert sorted(path.suffix for path in (disk / "cache").rglob("*") if path.is_file()) == ["", ".kernel"]
