"""Who is told which inputs are being read, and may have some left out: what bounds an audit from outside."""

from collections.abc import Sequence
from typing import Protocol


class Watch(Protocol):
    """Inputs are known by their numbers: the order in which they were found."""

    def expects(self, sizes: Sequence[int]) -> None:
        """Note the inputs that will be read, by their sizes in bytes, before the first is."""
        ...

    def refuses(self, number: int) -> str:
        """Return why an input is not to be read; "" to read it."""
        ...

    def begins(self, number: int, size: int) -> None:
        """Note that an input of `size` bytes is being read."""
        ...

    def ends(self, number: int) -> None:
        """Note that an input was read."""
        ...
