"""The modules that are loaded for one context, each once, shared by their users and unloaded by the last of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Module = TypeVar("Module")


class Modules(Generic[Module]):
    """Loaded modules by their digest, with a count of their holders. Safe for threads.

    A module stays loaded until `release`, and after it as long as it has a holder. `unload` is called outside all
    locks. Modules that were never loaded are never unloaded, and a failed load is not remembered.
    """

    def __init__(self, unload: Callable[[Module], None]) -> None:
        self._unload = unload
        self._lock = threading.RLock()  # the garbage collector may release a module inside of it
        self._slots: dict[str, _Slot[Module]] = {}

    def hold(self, digest: str, load: Callable[[], Module]) -> LoadedModule[Module]:
        """Return the module of `digest`, held until it is released; `load` loads it if necessary.

        Threads that request it at the same time load once. Raises the errors of `load`.
        """
        with self._lock:
            slot = self._slots.setdefault(digest, _Slot())
            slot.holders += 1
        try:
            with slot.loading:
                if slot.module is None:
                    slot.module = load()
                return LoadedModule(slot.module, lambda: self._let_go(digest, slot))
        except BaseException:
            self._let_go(digest, slot)
            raise

    def release(self) -> None:
        """Release all modules: those without a holder are unloaded now, the others by their last holder."""
        with self._lock:
            slots = dict(self._slots)
            for slot in slots.values():
                slot.holders += 1
            self._slots = {}
        for digest, slot in slots.items():
            self._let_go(digest, slot)

    def __len__(self) -> int:
        return len(self._slots)

    def _let_go(self, digest: str, slot: _Slot[Module]) -> None:
        with self._lock:
            slot.holders -= 1
            kept = self._slots.get(digest) is slot
            if kept and slot.module is None and not slot.holders:  # its load failed
                del self._slots[digest]
            unused = None if kept or slot.holders else slot.module
        if unused is not None:
            self._unload(unused)


class LoadedModule(Generic[Module]):
    """A module that stays loaded until `release`, or until this object is gone; releasing twice is harmless."""

    def __init__(self, module: Module, release: Callable[[], None]) -> None:
        self.module = module
        self._lock = threading.Lock()
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Release the module, which must not be used any more."""
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process, modules it needs may be gone
            self.release()


class _Slot(Generic[Module]):
    """One place for a module, and the number of its holders."""

    def __init__(self) -> None:
        self.loading = threading.Lock()
        self.module: Module | None = None
        self.holders = 0
