"""What users of other kernel caches complained of: a table, and the test that each complaint has become."""

import errno
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cache_samples import cache_in, key, never

from gpuforge.runtime import cache
from gpuforge.runtime.cache import CacheFolder, KernelCache, folder_of

pytestmark = pytest.mark.thorough


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


def test_entries_lie_in_two_levels_of_folders(folder):
    for number in range(50):
        cache_in(folder).obtain(key(number), lambda: b"cubin")
    assert {path.parent.name for path in entries(folder)} == {key(n).digest[:2] for n in range(50)}
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["lock"]


def test_a_hit_opens_one_file_and_lists_nothing(folder, monkeypatch):
    cache_in(folder).obtain(key(), lambda: b"cubin")
    cache, opened = cache_in(folder), []
    of_path, of_os = Path.open, os.open

    def counted(self: Path, *arguments: Any, **keys: Any) -> Any:
        opened.append(self)
        return of_path(self, *arguments, **keys)

    def counted_too(path: Any, *arguments: Any, **keys: Any) -> int:
        opened.append(Path(path))
        return of_os(path, *arguments, **keys)

    monkeypatch.setattr(Path, "open", counted)
    monkeypatch.setattr(os, "open", counted_too)
    for name in ("iterdir", "glob", "rglob"):
        monkeypatch.setattr(Path, name, lambda *_: never())
    monkeypatch.setattr(os, "listdir", lambda *_: never())
    monkeypatch.setattr(os, "scandir", lambda *_: never())
    assert cache.obtain(key(), never) == b"cubin"
    assert [path.name for path in opened] == [f"{key().digest}.kernel"]


def test_a_compiler_whose_output_changes_is_cached(folder):
    """NVRTC's PTX had a temporary name in it, so that the machine code's key was another one each time."""
    outputs = iter((b"made at 1", b"made at 2"))
    assert cache_in(folder).obtain(key(), lambda: next(outputs)) == b"made at 1"
    assert cache_in(folder).obtain(key(), lambda: next(outputs)) == b"made at 1"


CALLS = ("open", "mkdir", "stat", "replace", "unlink", "iterdir")


class Failing:
    """Makes the N-th call of the file system fail, and all after it if it stays broken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, code: int, for_good: bool) -> None:
        self.seen = 0
        for name in CALLS:
            monkeypatch.setattr(Path, name, self._wrapped(getattr(Path, name), number, code, for_good))

    def _wrapped(
        self, whole: Callable[..., Any], number: int, code: int, for_good: bool
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **keys: Any) -> Any:
            self.seen += 1
            if self.seen == number or (for_good and self.seen > number):
                raise OSError(code, os.strerror(code))
            return whole(*arguments, **keys)

        return call


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize(
    "code", [errno.ESTALE, errno.EBUSY, errno.ENOENT, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EIO]
)
def test_no_failing_call_reaches_the_user(tmp_path, code, for_good):
    """The N-th call fails, N = 1, 2, ... until all goes well: users get their kernel, and no entry is ever wrong."""
    for number in range(1, 100):
        folder = tmp_path / str(number)
        cache_in(folder).obtain(key(9), lambda: b"old")
        with pytest.MonkeyPatch.context() as monkeypatch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failing = Failing(monkeypatch, number, code, for_good)
            cache = cache_in(folder, limit=500)  # small enough for entries to give way
            for each in (0, 1, 9, 0):
                wanted = b"kernel %d" % each if each != 9 else b"old"
                assert cache.obtain(key(each), lambda wanted=wanted: wanted) == wanted
            cache.discard(key(1))
        after = cache_in(folder)
        assert after.folder is not None
        assert [after.folder.check(file) for file in after.folder.files() if after.folder.check(file)] == []
        if failing.seen < number:
            assert number > 10
            return
    raise AssertionError("it never goes well")


def test_who_writes_second_keeps_its_own_bytes(folder, monkeypatch):
    """NFS goes on to say for a minute that what another machine has written is not there."""
    assert cache_in(folder).obtain(key(), lambda: b"theirs") == b"theirs"
    monkeypatch.setattr(CacheFolder, "read", lambda *_, **__: None)
    cache = cache_in(folder)
    assert [cache.obtain(key(), lambda: b"mine") for _ in range(2)] == [b"mine"] * 2
    monkeypatch.undo()
    assert cache_in(folder).obtain(key(), never) in {b"mine", b"theirs"}


def test_the_caches_own_version_is_in_the_key(monkeypatch):
    before = key().digest
    monkeypatch.setattr(cache, "COMPILED_AS", cache.COMPILED_AS + 1)
    assert key().digest != before


def test_a_changed_header_is_another_entry(folder):
    cache = cache_in(folder)
    assert cache.obtain(key(headers={"a.h": b"1"}), lambda: b"one") == b"one"
    assert cache.obtain(key(headers={"a.h": b"2"}), lambda: b"two") == b"two"
    assert cache.obtain(key(headers={"a.h": b"1"}), never) == b"one"


def test_it_lies_below_the_users_cache_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert folder_of({}) == Path("/home/me/.cache/gpuforge/kernels/cache")
    assert not folder_of({"TMPDIR": tempfile.gettempdir()}).is_relative_to(tempfile.gettempdir())


def test_a_cache_in_memory_has_a_limit():
    cache, compiled = KernelCache(None, limit=10_000), []

    def compile_one(number: int) -> bytes:
        compiled.append(number)
        return bytes(1000)

    for number in (*range(20), 19, 0):
        cache.obtain(key(number), lambda number=number: compile_one(number))  # type: ignore[misc]
    assert compiled == [*range(20), 0]


def test_strange_files_stop_nothing(folder):
    """What other programs, and killed ones, leave in the folder, at the very place of an entry, too."""
    cache_in(folder).obtain(key(1), lambda: b"one")
    home = folder / key().digest[:2]
    home.mkdir(exist_ok=True)
    for strange in (
        "x-atime",
        ".nfs000000000001",
        f".{key().digest}.1234.part",
        "none.kernel",
        "\udcff.kernel",
    ):
        (home / strange).write_bytes(b"?")
    (folder / "zz").write_bytes(b"a file where a folder would be")
    (folder / "yy.kernel").mkdir()
    cache = cache_in(folder, limit=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(5):
            cache.obtain(key(number), lambda: bytes(300))
    assert cache_in(folder).obtain(key(4), never) == bytes(300)
