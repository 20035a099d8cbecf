"""The kernel cache: what users of other caches complained of, and the commands of docs/users-machine.md."""

import errno
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cache_samples import Counter, cache_in, key, never
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.runtime.__main__ import main
from gpuforge.runtime.cache import (
    BadEntryError,
    CacheFolder,
    CacheKey,
    KernelCache,
    decode,
    encode,
    folder_of,
    limit_of,
)

pytestmark = pytest.mark.thorough


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


# The key


@pytest.mark.parametrize(
    "change",
    [
        {"content": "another source"},
        {"headers": (("a.cuh", "another header"),)},
        {"headers": (("b.cuh", "0" * 64),)},
        {"options": ("-O3", "-g")},
        {"options": ("-g -O3",)},
        {"toolchain": "nvrtc 13.1.1"},
        {"arch": "sm_90a"},
        {"driver": "580.159.04"},
        {"file": "saxpy.cu"},
    ],
    ids=str,
)
def test_whatever_decides_the_code_is_in_its_key(change):
    known = CacheKey("source", (("a.cuh", "0" * 64),), ("-g", "-O3"), "nvrtc 13.0.88", "sm_90")
    assert replace(known, **change).digest != known.digest  # type: ignore[arg-type]


def test_a_key_is_the_same_in_every_process_and_does_not_hold_its_label():
    assert key(label="saxpy").digest == key(label="other").digest
    code = (
        "from gpuforge.runtime.cache import CacheKey;"
        "print(CacheKey.of(b'kernel 0', toolchain='nvrtc 13.0.88', arch='sm_90').digest)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == key().digest


@pytest.mark.parametrize("field", ["toolchain", "arch"])
def test_a_key_without_its_compiler_or_architecture_is_a_mistake(field):
    fields = {"toolchain": "nvrtc 13.0.88", "arch": "sm_90", field: ""}
    with pytest.raises(ValueError, match=f"a cache key needs its {field}"):
        CacheKey.of(b"source", **fields)  # type: ignore[arg-type]


# Files


@given(
    st.binary(max_size=200), st.binary(max_size=50), st.integers(0, 10_000), st.binary(min_size=1, max_size=4)
)
def test_a_changed_entry_is_never_read_as_good(payload, source, place, new):
    wanted = CacheKey.of(source, toolchain="g++ 12", arch="x86-64")
    good = encode(wanted, payload)
    assert decode(good, wanted.digest).payload == payload
    place %= len(good)
    for bad in (good[:place] + new + good[place + len(new) :], good[:place], good + new):
        if bad != good:
            with pytest.raises(BadEntryError):
                decode(bad, wanted.digest)


def test_an_entry_is_one_file_and_another_process_finds_it(folder):
    assert cache_in(folder).obtain(key(), lambda: b"cubin") == b"cubin"
    assert [path.name for path in folder.rglob("*") if path.is_file() and path.name != "lock"] == [
        f"{key().digest}.kernel"
    ]
    assert cache_in(folder).obtain(key(), never) == b"cubin"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"),
        lambda path: path.write_bytes(b"x" * 300),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
        lambda path: os.truncate(path, 1 << 42),
        lambda path: path.write_bytes(with_header(b"[" * 200_000)),
    ],
    ids=[
        "empty",
        "truncated",
        "a bit flipped",
        "overwritten",
        "a folder",
        "a pipe",
        "endless",
        "huge",
        "deep",
    ],
)
def test_a_bad_entry_is_a_miss(folder, damage):
    cache_in(folder).obtain(key(), lambda: b"cubin")
    damage(next(folder.rglob("*.kernel")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cache_in(folder).obtain(key(), lambda: b"again") == b"again"


def with_header(header: bytes) -> bytes:
    """An entry of `key()` with a good checksum."""
    checksum = hashlib.sha256(key().digest.encode() + header + b"cubin").digest()
    return b"GPUFKC1\n" + len(header).to_bytes(4, "little") + header + checksum + b"cubin"


@pytest.mark.parametrize("damage", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_an_entry_that_is_no_file_is_not_waited_for(folder, damage):
    cache_in(folder).obtain(key(), lambda: b"cubin")
    path = next(folder.rglob("*.kernel"))
    path.unlink()
    damage(path)
    (file,) = CacheFolder(folder, 1 << 20).files()
    assert "it is not a regular file" in CacheFolder(folder, 1 << 20).check(file)


def test_a_bad_entry_is_replaced(folder):
    cache_in(folder).obtain(key(), lambda: b"cubin")
    next(folder.rglob("*.kernel")).write_bytes(b"")
    cache_in(folder).obtain(key(), lambda: b"again")
    assert cache_in(folder).obtain(key(), never) == b"again"


def test_an_entry_under_another_ones_name_is_a_miss(folder):
    cache = cache_in(folder)
    cache.obtain(key(1), lambda: b"one")
    cache.obtain(key(2), lambda: b"two")
    one, two = (folder / key(n).digest[:2] / f"{key(n).digest}.kernel" for n in (1, 2))
    one.replace(two)
    assert cache_in(folder).obtain(key(2), lambda: b"two") == b"two"


def test_a_binary_that_does_not_load_can_be_discarded_and_compiled_once_more(folder):
    cache = cache_in(folder)
    cache.obtain(key(), lambda: b"refused by the driver")
    cache.discard(key())
    assert cache.obtain(key(), lambda: b"cubin") == b"cubin"
    assert cache_in(folder).obtain(key(), never) == b"cubin"


# Failures


def test_a_failure_is_raised_and_not_remembered(folder):
    cache = cache_in(folder)
    with pytest.raises(AssertionError):
        cache.obtain(key(), never)
    assert list(folder.rglob("*.kernel")) == []
    assert cache.obtain(key(), lambda: b"cubin") == b"cubin"


def test_without_a_cache_nothing_is_read_and_nothing_is_kept(folder):
    cache = cache_in(folder)
    cache.obtain(key(), lambda: b"old")
    assert cache.obtain(key(), lambda: b"new", cache=False) == b"new"
    assert cache.obtain(key(), never) == b"old"
    cache.obtain(key(1), lambda: b"other", cache=False)
    assert len(list(folder.rglob("*.kernel"))) == 1


def test_the_compile_step_can_be_replaced(folder):
    cache = cache_in(folder)
    seen = []

    def hook(wanted: CacheKey, compile: Callable[[], bytes]) -> bytes:  # noqa: A002
        seen.append(wanted.label)
        return compile() + b", patched"

    cache.hook = hook
    assert cache.obtain(key(label="saxpy"), lambda: b"cubin") == b"cubin, patched"
    assert cache.obtain(key(), never) == b"cubin, patched"
    assert seen == ["saxpy"]
    cache.hook = lambda *_: None  # type: ignore[assignment,return-value]
    with pytest.raises(TypeError, match="returns NoneType instead of bytes"):
        cache.obtain(key(1), never)


def test_a_full_disk_is_one_warning_and_the_kernel_stays_in_memory(folder):
    """The file may not grow: the write fails in its middle, as on a full disk."""
    cache = cache_in(folder)
    counters = [Counter(b"x" * 5000), Counter(b"y" * 5000)]
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with pytest.warns(RuntimeWarning) as caught:
            payloads = [cache.obtain(key(number), compiled) for number, compiled in enumerate(counters)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert [str(warning.message) for warning in caught] == [
        f"compiled kernels are kept in memory only: {folder}: {os.strerror(errno.EFBIG)}. "
        "Set GPUFORGE_KERNEL_HOME to a folder that you can write."
    ]
    assert payloads == [cache.obtain(key(number), never) for number in range(2)]
    assert [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"] == []


def test_a_folder_that_others_can_write_is_not_trusted(folder):
    cache_in(folder).obtain(key(), lambda: b"planted")
    folder.chmod(0o777)
    cache = cache_in(folder)
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        assert cache.obtain(key(), lambda: b"mine") == b"mine"
    assert cache.obtain(key(), never) == b"mine"


def test_a_folder_of_another_user_is_not_trusted(folder, monkeypatch):
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert cache_in(folder).obtain(key(), lambda: b"cubin") == b"cubin"
    assert not list(folder.iterdir())


def test_a_warning_made_an_error_does_not_reach_the_caller(folder):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_in(folder).obtain(key(), lambda: b"cubin") == b"cubin"


def test_a_folder_removed_meanwhile_is_made_again(folder):
    cache = cache_in(folder)
    cache.obtain(key(1), lambda: b"other")
    shutil.rmtree(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.obtain(key(), lambda: b"cubin")
    assert cache_in(folder).obtain(key(), never) == b"cubin"


# Size


def test_the_least_recently_used_entries_give_way(folder):
    cache = cache_in(folder, limit=10_000)
    for number in range(20):
        cache.obtain(key(number), lambda: b"x" * 1000)
        path = folder / key(number).digest[:2] / f"{key(number).digest}.kernel"
        os.utime(path, (1_000_000 + number,) * 2)
        cache.obtain(key(0), lambda: b"x" * 1000)  # read before it gives way: its time of use is now
    kept = {path.stem for path in folder.rglob("*.kernel")}
    assert sum(path.stat().st_size for path in folder.rglob("*.kernel")) <= 10_000
    assert {key(0).digest, key(19).digest} <= kept
    assert key(1).digest not in kept


def test_what_is_larger_than_the_limit_is_used_and_not_stored(folder):
    cache = cache_in(folder, limit=1000)
    cache.obtain(key(1), lambda: b"x" * 100)
    assert cache.obtain(key(2), lambda: b"x" * 2000) == b"x" * 2000
    assert cache.obtain(key(1), never) == b"x" * 100


def test_what_killed_processes_left_is_removed_when_it_is_old(folder):
    cache = cache_in(folder)
    cache.obtain(key(), lambda: b"cubin")
    home = next(folder.rglob("*.kernel")).parent
    old, new = home / ".a.1234.part", home / ".b.1234.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    assert cache.folder is not None
    cache.folder.prune()
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("500M", 500 << 20),
        ("2 GiB", 2 << 30),
        ("4096", 4096),
        ("1gb", 1 << 30),
        ("", 1 << 30),
        ("much", 1 << 30),
    ],
)
def test_the_limit_is_read_from_the_environment(text, limit):
    assert limit_of({"GPUFORGE_KERNEL_CACHE_SIZE": text}) == limit


def test_the_folder_is_beside_the_users_own_builds(tmp_path):
    assert folder_of({"GPUFORGE_KERNEL_HOME": "/y"}) == Path("/y/cache")
    assert folder_of({"XDG_CACHE_HOME": "/x"}) == Path("/x/gpuforge/kernels/cache")
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path), "GPUFORGE_KERNEL_CACHE": "0"}
    KernelCache.of_user(env).obtain(key(), lambda: b"cubin")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_folder_is_a_cache_in_memory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    env = {"GPUFORGE_KERNEL_HOME": "rel", "GPUFORGE_KERNEL_CACHE_SIZE": "12M"}
    with pytest.warns(RuntimeWarning) as caught:
        found = [KernelCache.of_user(env).obtain(key(), compiled) for compiled in (lambda: b"cubin", never)]
    assert found == [b"cubin", b"cubin"]
    assert [str(warning.message) for warning in caught] == [
        "compiled kernels are kept in memory only: GPUFORGE_KERNEL_HOME=rel: expected an absolute path. "
        "Set GPUFORGE_KERNEL_HOME to a folder that you can write."
    ]
    monkeypatch.setenv("GPUFORGE_KERNEL_HOME", "rel")
    assert main(["cache", "ls"]) == 2
    assert capsys.readouterr().err == "error: GPUFORGE_KERNEL_HOME=rel: expected an absolute path\n"
    assert list(tmp_path.iterdir()) == []


def test_the_folder_above_is_not_made_for_everybody_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        cache_in(tmp_path / "home" / "cache").obtain(key(), lambda: b"cubin")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("home", "home/cache")] == [0o775, 0o700]


# The command


def test_the_command_lists_checks_and_removes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GPUFORGE_KERNEL_HOME", str(tmp_path))

    def said(*words: str) -> tuple[int, list[str]]:
        return main(["cache", *words]), capsys.readouterr().out.splitlines()

    folder = tmp_path / "cache"
    where = f"of 1.1 GB in {folder}"
    assert said("ls") == (0, [f"0 entries, 0.0 MB {where}"])
    cache = cache_in(folder, limit=1 << 30)
    for number, name in enumerate(["saxpy", "daxpy\x1b[1m"]):
        cache.obtain(key(number, label=name), lambda: b"x" * 2_000_000)
        os.utime(
            folder / key(number).digest[:2] / f"{key(number).digest}.kernel", (time.time() - 90_000 * 3,) * 2
        )
    assert said("verify") == (0, ["read 2 entries: none damaged"])
    status, lines = said("ls")
    assert sorted(lines[:2]) == sorted(
        f"{key(number).digest[:12]}  2.0 MB  3 days ago  sm_90  nvrtc 13.0.88  "
        + name.replace("\x1b", "\\x1b")
        for number, name in enumerate(["saxpy", "daxpy\x1b[1m"])
    )
    assert (status, lines[2]) == (0, f"2 entries, 4.0 MB {where}")
    assert said("rm", key(0).digest[:12], "nothing") == (2, [])
    assert said("rm", "") == (2, [])  # all begin with it
    assert len(said("ls")[1]) == 3
    assert said("rm", key(0).digest[:12]) == (0, [f"removed {key(0).digest[:12]}, 2.0 MB"])
    assert len(said("ls")[1]) == 2
    cache.obtain(key(0), lambda: b"")
    bad = folder / key(0).digest[:2] / f"{key(0).digest}.kernel"
    bad.write_bytes(b"")
    assert said("verify") == (
        1,
        [
            f"{bad}: it is not an entry of this cache",
            "read 2 entries: 1 damaged",
        ],
    )
    assert said("prune")[1] == ["removed 1 entry, 0.0 MB", f"1 entry, 2.0 MB {where}"]
    assert [entry["key"]["label"] for entry in json.loads("".join(said("ls", "--json")[1]))] == [
        "daxpy\x1b[1m"
    ]
    assert said("prune", "--size", "1M")[1][0] == "removed 1 entry, 2.0 MB"
    assert said("clear") == (0, [f"removed 0 entries from {folder}"])
