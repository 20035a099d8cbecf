"""The kernel cache of this user, for every back end: code is compiled only once on a machine.

Its own problems never become exceptions: a damaged entry is a miss, an unusable folder is one warning and a cache in
memory. An entry is a checked file, in two levels of folders. Little endian: 8 bytes `MAGIC`; the header's length, u32;
the header, the key's fields in JSON; 32 bytes, the sha256 of the key's digest, header and payload; the payload.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import struct
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .document import open_file
from .layout import KERNEL_HOME, home_problem, kernel_home

# part of every key; raise it when the runtime compiles the same request differently than before
COMPILED_AS = 1
LIMIT = "GPUFORGE_KERNEL_CACHE_SIZE"
OFF = "GPUFORGE_KERNEL_CACHE"
MAGIC = b"GPUFKC1\n"
_DEFAULT_LIMIT = 1 << 30
_PATIENCE = 300.0  # seconds, after which another process's compilation is assumed to hang
_ABANDONED = 3600.0  # seconds after which an unfinished file is abandoned
_TOUCH_EVERY = 600.0  # seconds; the precision of an entry's time of use, which spares a shared disk
_LARGEST = 1 << 30  # bytes of an entry that is read, unless the limit is larger
_KEEP = 0.8  # of the limit, so that not every new entry causes a pruning
_SUFFIX, _UNFINISHED = ".kernel", ".part"
_LENGTH, _CHECKSUM, _LONGEST_HEADER = struct.Struct("<I"), 32, 1 << 20
# struct flock of 64-bit Linux: l_type, l_whence, (padding), l_start, l_len, l_pid, (padding)
_FLOCK = struct.Struct("hhqqi4x")
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", 37)

Compile = Callable[[], bytes]


@dataclass(frozen=True)
class CacheKey:
    """A request for one kernel. Two requests that differ in any field never share an entry.

    `content` is the sha256 of the source and `headers` the (name, sha256) of everything it includes; `toolchain` is the
    compiler with its whole version ("nvrtc 13.0.88"), `arch` its target ("sm_90a"). `driver` is the driver's version if
    the driver compiles or finishes the code, else "". `file` is the source's name if the compiler gets one, which the
    code may have from `__FILE__`. `label` is only for people and not part of the key.
    """

    content: str
    headers: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    toolchain: str
    arch: str
    driver: str = ""
    file: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        for field in ("content", "toolchain", "arch"):
            if not getattr(self, field):
                raise ValueError(
                    f"a cache key needs its {field}: without it, other code would be found under it"
                )

    @classmethod
    def of(
        cls,
        source: bytes,
        *,
        headers: Mapping[str, bytes] | None = None,
        options: Iterable[str] = (),
        **fields: str,
    ) -> CacheKey:
        """Return the key of `source`, hashing it and its headers. The order of `options` matters."""
        included = tuple(sorted((name, _sha256(data)) for name, data in (headers or {}).items()))
        return cls(_sha256(source), included, tuple(options), **fields)

    @property
    def digest(self) -> str:
        """The key's name in the cache: a sha256 in hexadecimal."""
        fields = {**asdict(self), "compiled_as": COMPILED_AS}
        del fields["label"]
        return _sha256(json.dumps(fields, sort_keys=True).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class BadEntryError(ValueError):
    """A file of the cache is not the complete entry of its name; the message has the problem."""


class CacheEntry(NamedTuple):
    """The content of a file of the cache: the key's fields, and the kernel's bytes."""

    fields: dict[str, Any]
    payload: bytes


def encode(key: CacheKey, payload: bytes) -> bytes:
    """Return the bytes of a file with `payload` under `key`."""
    header = json.dumps(asdict(key), sort_keys=True).encode()
    return MAGIC + _LENGTH.pack(len(header)) + header + _checksum(key.digest, header, payload) + payload


def decode(data: bytes, digest: str) -> CacheEntry:
    """Read the file stored under a key's `digest`; raises BadEntryError unless it is complete and belongs there."""
    start = len(MAGIC) + _LENGTH.size
    if data[: len(MAGIC)] != MAGIC or len(data) < start:
        raise BadEntryError("it is not an entry of this cache")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    end = start + length
    if length > _LONGEST_HEADER or len(data) < end + _CHECKSUM:
        raise BadEntryError("it ends too early")
    header, stored, payload = data[start:end], data[end : end + _CHECKSUM], data[end + _CHECKSUM :]
    if stored != _checksum(digest, header, payload):
        raise BadEntryError("its checksum does not match: it is damaged, or another entry's")
    try:
        fields = json.loads(header)
    except (RecursionError, ValueError):
        raise BadEntryError("its header is not valid JSON") from None
    if not isinstance(fields, dict):
        raise BadEntryError("its header is not an object")
    return CacheEntry(fields, payload)


def _checksum(digest: str, header: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(digest.encode() + header + payload).digest()


class FolderUnusable(Exception):  # noqa: N818  a state of the machine
    """The folder cannot be used as a cache; the message is the reason."""


class File(NamedTuple):
    """A file of the cache: its digest, its size in bytes, and its time of last use."""

    digest: str
    path: Path
    size: int
    used: float


class CacheFolder:
    """A folder of entries, shared by threads and processes. Readers need no lock, as a file is complete or absent.

    `limit` is in bytes. Entries that others write at the same time are counted at the next pruning.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit
        self._counted: int | None = None  # bytes at the last count, plus those written since

    def prepare(self) -> None:
        """Make the folder; raises FolderUnusable if others could put code into it, or it cannot be made."""
        try:
            if not self.path.parent.exists():  # not for all users, with any umask
                self.path.parent.mkdir(mode=0o775, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            found = self.path.stat()
        except OSError as error:
            raise FolderUnusable(f"{self.path}: {error.strerror or error}") from error
        if found.st_uid != os.geteuid():
            raise FolderUnusable(f"{self.path} belongs to another user, who could put code into it")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise FolderUnusable(f"{self.path} can be written by other users (chmod go-w {self.path})")

    def read(self, digest: str, *, touch: bool = True) -> CacheEntry | None:
        """Return the entry stored under `digest`; a missing, damaged or unreadable one is None.

        With `touch` it counts as used now.
        """
        path = self._file(digest)
        try:
            entry, used = self._read(path, digest)
        except (OSError, ValueError):
            return None
        if touch and time.time() - used > _TOUCH_EVERY:
            with contextlib.suppress(OSError):
                os.utime(path)
        return entry

    def check(self, file: File) -> str:
        """Return the problem of an entry's file, "" for a good one."""
        try:
            self._read(file.path, file.digest)
        except BadEntryError as error:
            return str(error)
        except (OSError, ValueError) as error:
            return f"it cannot be read: {error}"
        return ""

    def _read(self, path: Path, digest: str) -> tuple[CacheEntry, float]:
        with open_file(path) as file:
            seen = os.fstat(file.fileno())
            if seen.st_size > max(self.limit, _LARGEST):
                raise BadEntryError("it is larger than any entry")
            return decode(file.read(), digest), seen.st_mtime

    def write(self, key: CacheKey, payload: bytes) -> None:
        """Store an entry by rename, then keep within the limit. Raises OSError, and leaves nothing half-written.

        An existing file is replaced without being read, so two writers of one key do no harm. An entry larger than the
        limit is not stored.
        """
        data = encode(key, payload)
        if len(data) > self.limit:
            return
        path = self._file(key.digest)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            with unfinished.open("xb") as file:
                file.write(data)
            unfinished.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
        counted = self._counted
        self._counted = sum(f.size for f in self.files()) if counted is None else counted + len(data)
        if self._counted > self.limit:
            self.prune(int(self.limit * _KEEP))

    def remove(self, digest: str) -> bool:
        """Remove one entry; return whether there was one."""
        try:
            self._file(digest).unlink()
        except OSError:
            return False
        return True

    def files(self) -> Iterator[File]:
        """Yield the entries' files, the least recently used first; those that vanish meanwhile are left out."""
        found = []
        for path in self._paths(_SUFFIX):
            with contextlib.suppress(OSError):
                seen = path.stat()
                found.append(File(path.stem, path, seen.st_size, seen.st_mtime))
        yield from sorted(found, key=lambda file: (file.used, file.digest))

    def prune(self, limit: int | None = None) -> list[File]:
        """Remove leftovers of killed processes, then the least recently used entries beyond `limit` bytes."""
        for path in self._paths(_UNFINISHED):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()
        files = list(self.files())
        total = sum(file.size for file in files)
        removed = []
        for file in files:
            if total <= (self.limit if limit is None else limit):
                break
            if self.remove(file.digest):
                removed.append(file)
            total -= file.size
        self._counted = total
        return removed

    def clear(self) -> int:
        """Remove all entries and unfinished files; return how many entries there were."""
        for path in self._paths(_UNFINISHED):
            with contextlib.suppress(OSError):
                path.unlink()
        return len(self.prune(limit=-1))

    @contextlib.contextmanager
    def locked(self, digest: str) -> Iterator[None]:
        """Hold the lock of a key's `digest`, among the processes that use this folder.

        It is a lock on one byte of one file, which the kernel releases when its holder dies. It belongs to the open
        file and not to the process, so threads and other users of the same file do not release it, and it works over
        NFS: https://man7.org/linux/man-pages/man2/fcntl.2.html. Without one, after some minutes or where there are no
        locks, the caller computes all the same, which is only slower.
        """
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            yield
            return
        try:
            is_locked = _acquire(handle, int(digest[:15], 16))
            try:
                yield
            finally:
                if is_locked:  # closing the file would not unlock it, as a forked child may have it open, too
                    _request(handle, fcntl.F_UNLCK, int(digest[:15], 16))
        finally:
            os.close(handle)

    def _file(self, digest: str) -> Path:
        return self.path / digest[:2] / f"{digest}{_SUFFIX}"

    def _paths(self, suffix: str) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            for folder in sorted(self.path.iterdir()):
                with contextlib.suppress(OSError):
                    if len(folder.name) == 2:
                        yield from [path for path in folder.iterdir() if path.name.endswith(suffix)]


def _acquire(handle: int, offset: int) -> bool:
    end, pause = time.monotonic() + _PATIENCE, 0.001
    while True:
        try:
            _request(handle, fcntl.F_WRLCK, offset)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= end:
                return False
        except OSError:  # ENOLCK, EINVAL: the file system has no such locks
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _request(handle: int, kind: int, offset: int) -> None:
    fcntl.fcntl(handle, _SET_LOCK, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))


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
        compiled = compile if self.hook is None else lambda: self._hooked(key, compile)
        if not cache:
            return compiled()
        with self._lock:
            mine = self._under_way.setdefault(key.digest, threading.RLock())
        with mine:
            if key.digest in self._nested:  # a compile step that requests its own key
                return compiled()
            self._nested.add(key.digest)
            try:
                return self._look_up_or_compile(key, compiled)
            finally:
                self._nested.discard(key.digest)

    def _hooked(self, key: CacheKey, compile: Compile) -> bytes:  # noqa: A002
        made: Any = self.hook(key, compile)  # type: ignore[misc]
        if not isinstance(made, bytes):
            raise TypeError(f"the hook returns {type(made).__name__} instead of bytes")
        return made

    def discard(self, key: CacheKey) -> None:
        """Forget one kernel, in memory and on disk: it did not load, or should be compiled again."""
        with self._lock:
            self._memory.pop(key.digest, None)
        if self.folder is not None:
            self.folder.remove(key.digest)

    def _look_up_or_compile(self, key: CacheKey, compile: Compile) -> bytes:  # noqa: A002
        self._prepare()
        with self._lock:
            payload = self._memory.get(key.digest)
            if payload is not None:
                self._memory.move_to_end(key.digest)
                return payload
        folder = self.folder
        if folder is None:
            return self._remember(key.digest, compile())
        entry = folder.read(key.digest)
        if entry is not None:
            return entry.payload
        with folder.locked(key.digest):
            entry = folder.read(key.digest)  # another process may have compiled it meanwhile
            if entry is not None:
                return entry.payload
            payload = compile()
            try:
                folder.write(key, payload)
            except OSError as error:
                self._remember(key.digest, payload)
                self._warn(f"{folder.path}: {error.strerror or error}")
        return payload

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
        self._under_way: dict[str, threading.RLock] = {}  # by digest: held by the thread that looks it up
        self._nested: set[str] = set()


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
    found = re.fullmatch(r"([0-9]{1,15}) *(?:([KMGT])(?:I?B)?)?", text.strip().upper())
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 500M or 2G")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")
