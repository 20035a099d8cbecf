"""The budget for reading and judging a wheel, so that a small file cannot take hours or gigabytes.

Every reader spends it. The limits are far beyond the needs of normal wheels: of thirty real ones none spends a tenth of
any.
"""

from typing import Literal, NamedTuple

from gpuforge.errors import TooLargeError

Kind = Literal["bytes", "names", "entries", "work", "edges"]


class _Limit(NamedTuple):
    """The budget of one kind: a fixed part for small wheels, and more for each byte of the file."""

    least: int
    per_byte: float
    reason: str


_LIMITS: dict[Kind, _Limit] = {
    "bytes": _Limit(512 << 20, 40, "reading its files means unpacking more than {:,} bytes"),
    "names": _Limit(32 << 20, 0.5, "the names in it have more than {:,} characters"),
    "entries": _Limit(400_000, 1 / 512, "its tables have more than {:,} entries"),
    "work": _Limit(4_000_000, 0, "its requirements take more than {:,} comparisons"),
    "edges": _Limit(1_000_000, 0, "following what its libraries need takes more than {:,} steps"),
}


class Budget:
    """The budget of one wheel."""

    def __init__(self, size: int) -> None:
        """Start with the budget of a file of `size` bytes."""
        self.size = size
        self.limits: dict[Kind, int] = {
            kind: limit.least + int(size * limit.per_byte) for kind, limit in _LIMITS.items()
        }
        self.spent: dict[Kind, int] = dict.fromkeys(_LIMITS, 0)

    def spend(self, kind: Kind, amount: int) -> None:
        """Take an amount out of the budget; raises TooLargeError if it is spent."""
        self.spent[kind] += amount
        if self.spent[kind] > self.limits[kind]:
            raise TooLargeError.of(_LIMITS[kind].reason.format(self.limits[kind]))
