"""The memory of one launch at a time: its dimensions, its arguments, and pointers to them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char, c_uint64, c_void_p

from .context import Context
from .replay import Replay, replay

# CUlaunchConfig: grid, block, dynamic shared memory, stream; then the attributes, of which there are none. From 8 bytes
# before it, the same memory is CUDA_KERNEL_NODE_PARAMS_v2: function, grid, block, dynamic shared memory, pointers to
# the arguments; then three pointers, which are NULL.
HEAD = "@7IP24x"
_STREAM, _NODE_BYTES = 32, 72
BEFORE_REPLAY = 16  # launches before a graph pays off: it takes 24 us to make and some 100 kB on the device


class Frame:
    """Memory for one launch at a time, laid out by HEAD and then by the arguments' types, from `buffer` on.

    `left` counts the plain launches until a graph is made; for a frame that serves several streams it starts at 0, and
    no graph is made.
    """

    __slots__ = ("_raw", "_start", "buffer", "config", "left", "node", "parameters", "parameters_at",
                 "pool", "replay")  # fmt: skip

    def __init__(self, size: int, offsets: Sequence[int], function: int) -> None:
        self._raw = (c_uint64 * (size // 8 + 4))()
        # a CUDA type is aligned to 16 bytes at most
        self._start = 8 + (-ctypes.addressof(self._raw) - 8) % 16
        self.buffer = (c_char * size).from_buffer(self._raw, self._start)
        base = ctypes.addressof(self.buffer)
        pointers = (c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
        c_uint64.from_buffer(self._raw, self._start - 8).value = function
        self.config = byref(self.buffer)
        self.node = byref(self._raw, self._start - 8)
        self.parameters = byref(pointers)
        self.parameters_at = ctypes.addressof(pointers)
        self.pool: list[Frame] = []
        self.left = BEFORE_REPLAY
        self.replay: Replay | None = None

    def set_stream(self, queue: int) -> None:
        """Write the stream into the configuration, where a node has the pointers to the arguments."""
        c_uint64.from_buffer(self.buffer, _STREAM).value = queue

    def make_replay(self, context: Context, queue: int, kept: object) -> None:
        """Make a graph of the last packed arguments, if graphs work on this stream; `kept` as in `Replay`."""
        copy = ctypes.create_string_buffer(ctypes.string_at(ctypes.addressof(self.buffer) - 8, _NODE_BYTES))
        c_uint64.from_buffer(copy, 8 + _STREAM).value = self.parameters_at
        self.replay = replay(context, byref(copy), queue, kept)
