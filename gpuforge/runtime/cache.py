"""The kernel cache of this user, for every back end: code is compiled only once on a machine.

Its own problems never become exceptions: a damaged entry is a miss, an unusable folder is one warning and a cache in
memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from .cache_folder import CacheFolder, FolderUnusable
from .cache_key import CacheKey
from .cache_lock import Flights, locked
from .lookup import KERNEL_HOME, home_problem, kernel_home

LIMIT = "GPUFORGE_KERNEL_CACHE_SIZE"
OFF = "GPUFORGE_KERNEL_CACHE"
_DEFAULT_LIMIT = 1 << 30
_PATIENCE = 300.0  # seconds, after which another process's compilation is assumed to hang
_SIZE = re.compile(r"([0-9]{1,15}) *(?:([KMGT])(?:I?B)?)?")
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

Compile = Callable[[], bytes]


class KernelCache:
    """Compiled kernels by key, in memory and in a folder. Safe for threads, processes and forked children.

    `hook`, if set, is called instead of each compile step, as `hook(key, compile)`: to count, to log, or to compile
    elsewhere. Without a `folder` the cache is only in memory.
    """

    def __init__(self, folder: CacheFolder | None, *, limit: int = _DEFAULT_LIMIT) -> None:
        self.folder = folder
        self.hook: Callable[[CacheKey, Compile], bytes] | None = None
        self._limit = limit
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._warned = False
        self._start_anew()
        self._prepared = folder is None
        os.register_at_fork(after_in_child=self._start_anew)

    @classmethod
    def of_user(cls, env: Mapping[str, str] = os.environ) -> KernelCache:
        """Return the cache that the environment describes, the same object each time.

        GPUFORGE_KERNEL_CACHE=0 keeps compiled kernels only in memory.
        """
        limit = limit_of(env)
        off = env.get(OFF, "") == "0" or limit == 0
        wrong = None if off else home_problem(env)
        folder = None if off or wrong else folder_of(env)
        with _lock:
            if (folder, limit) not in _caches:
                _caches[folder, limit] = cls(CacheFolder(folder, limit) if folder else None, limit=limit)
            found = _caches[folder, limit]
        if wrong:
            found._warn(str(wrong))
        return found

    def obtain(self, key: CacheKey, compile: Compile, *, cache: bool = True) -> bytes:  # noqa: A002
        """Return the compiled kernel of `key`, calling `compile` if it is not in the cache.

        Threads and processes that request one key at the same time compile it once. Exceptions of `compile` are raised
        and not remembered. With `cache=False` nothing is looked up or kept.
        """
        if not cache:
            return self._compile(key, compile)
        return self._flights.result(
            key.digest,
            lambda: self._look_up_or_compile(key, compile),
            nested=lambda: self._compile(key, compile),
        )

    def discard(self, key: CacheKey) -> None:
        """Forget one kernel, in memory and on disk: it did not load, or should be compiled again."""
        with self._lock:
            self._memory.pop(key.digest, None)
        if self.folder is not None:
            self.folder.remove(key.digest)

    def _look_up_or_compile(self, key: CacheKey, compile: Compile) -> bytes:  # noqa: A002
        self._prepare()
        stored = self._stored(key.digest)
        if stored is not None:
            return stored
        if self.folder is None:
            return self._remember(key.digest, self._compile(key, compile))
        with locked(self.folder.lock_file, key.digest, patience=_PATIENCE):
            entry = self.folder.read(key.digest)  # another process may have compiled it meanwhile
            if entry is not None:
                return entry.payload
            payload = self._compile(key, compile)
            self._store(key, payload)
        return payload

    def _stored(self, digest: str) -> bytes | None:
        with self._lock:
            payload = self._memory.get(digest)
            if payload is not None:
                self._memory.move_to_end(digest)
                return payload
        entry = self.folder.read(digest) if self.folder is not None else None
        return entry.payload if entry is not None else None

    def _compile(self, key: CacheKey, compile: Compile) -> bytes:  # noqa: A002
        return compile() if self.hook is None else self.hook(key, compile)

    def _store(self, key: CacheKey, payload: bytes) -> None:
        folder = self.folder
        if folder is None:
            return
        try:
            folder.write(key, payload)
        except OSError as error:
            self._remember(key.digest, payload)
            self._warn(f"{folder.path}: {error.strerror or error}")

    def _remember(self, digest: str, payload: bytes) -> bytes:
        """Keep a kernel in memory; beyond the limit the least recently used ones are dropped."""
        with self._lock:
            self._memory[digest] = payload
            total = sum(map(len, self._memory.values()))
            while total > self._limit and self._memory:
                total -= len(self._memory.popitem(last=False)[1])
        return payload

    def _prepare(self) -> None:
        """Make the folder at its first use; if it cannot be used, the cache is in memory from then on."""
        if self._prepared or self.folder is None:
            return
        self._prepared = True
        try:
            self.folder.prepare()
        except FolderUnusable as error:
            self.folder = None
            self._warn(str(error))

    def _warn(self, why: str) -> None:
        """Warn once for this cache that the folder is not used; even `-W error` does not make it an exception."""
        if self._warned:
            return
        self._warned = True
        with contextlib.suppress(RuntimeWarning):
            warnings.warn(
                f"compiled kernels are kept in memory only: {why}. Set {KERNEL_HOME} to a folder that you can write.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _start_anew(self) -> None:
        """Make the objects that threads share; in a forked child no thread is left that could release a lock."""
        self._lock = threading.Lock()
        self._flights = Flights()


_lock = threading.Lock()
_caches: dict[tuple[Path | None, int], KernelCache] = {}


def folder_of(env: Mapping[str, str]) -> Path:
    """Return the cache's folder, beside the builds that the user made."""
    return Path(kernel_home(env)) / "cache"


def limit_of(env: Mapping[str, str]) -> int:
    """Return the limit in bytes; the default for a text that is not a size."""
    try:
        return bytes_of(env.get(LIMIT, ""))
    except ValueError:
        return _DEFAULT_LIMIT


def bytes_of(text: str) -> int:
    """Read a size: "500M", "2 GiB", "4096". All units are powers of 1024. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip().upper())
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 500M or 2G")
    return int(found[1]) << _SHIFTS[found[2] or ""]
