"""What the driver gave for each context: loaded once, shared by those who use it, never used in another context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Handle = TypeVar("Handle")


class Handles(Generic[Handle]):
    """Loaded code by (context, digest), with a count of its holders. Safe for threads.

    A context is named by a value that is never used again for another one: an id, not an address. `unload` is
    called with a context and a handle, outside all locks, when a handle that was let go has no holder any more;
    what was never loaded is never unloaded. A failed load is not remembered.
    """

    def __init__(self, unload: Callable[[Any, Handle], None]) -> None:
        self._unload = unload
        self._lock = threading.Lock()
        self._slots: dict[tuple[Hashable, str], _Slot[Handle]] = {}

    def hold(self, context: Hashable, digest: str, load: Callable[[], Handle]) -> Held[Handle]:
        """Return the handle of `digest` in `context`, held until it is released; `load` makes it if need be.

        Threads that ask at the same time load once. Raises what `load` raises.
        """
        with self._lock:
            slot = self._slots.setdefault((context, digest), _Slot(context, digest))
            slot.holders += 1
        try:
            with slot.loading:
                if slot.handle is None:
                    slot.handle = load()
                return Held(slot.handle, lambda: self._let_go(slot))
        except BaseException:
            self._let_go(slot)
            raise

    def release_context(self, context: Hashable) -> None:
        """Let go of all that was loaded into one context; what is held there is unloaded by its last holder."""
        self._release(lambda slot: slot.context == context)

    def release(self, digest: str) -> None:
        """Let go of one kernel in every context; what is held is unloaded by its last holder."""
        self._release(lambda slot: slot.digest == digest)

    def __len__(self) -> int:
        return len(self._slots)

    def _release(self, chosen: Callable[[_Slot[Handle]], bool]) -> None:
        with self._lock:
            slots = [slot for slot in self._slots.values() if chosen(slot)]
            for slot in slots:
                del self._slots[slot.context, slot.digest]
                slot.holders += 1
        for slot in slots:
            self._let_go(slot)

    def _let_go(self, slot: _Slot[Handle]) -> None:
        place = slot.context, slot.digest
        with self._lock:
            slot.holders -= 1
            kept = self._slots.get(place) is slot
            if kept and slot.handle is None and not slot.holders:  # its load failed
                del self._slots[place]
            unused = None if kept or slot.holders else slot.handle
        if unused is not None:
            self._unload(slot.context, unused)


class Held(Generic[Handle]):
    """A handle that stays loaded until `release`, or the end of a `with` statement; releasing twice is harmless."""

    def __init__(self, handle: Handle, release: Callable[[], None]) -> None:
        self.handle = handle
        self._lock = threading.Lock()
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Give the handle back: it must not be used any more."""
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Handle:
        return self.handle

    def __exit__(self, *_: object) -> None:
        self.release()


class _Slot(Generic[Handle]):
    """One place for a handle, and how many hold it."""

    def __init__(self, context: Hashable, digest: str) -> None:
        self.context = context
        self.digest = digest
        self.loading = threading.Lock()
        self.handle: Handle | None = None
        self.holders = 0
