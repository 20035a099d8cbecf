"""The port to an observer of an audit: it learns which inputs are read, and can have some left out."""

from collections.abc import Sequence
from typing import Protocol


class Watch(Protocol):
    """Inputs are identified by numbers, in the order in which they were found."""

    def expects(self, sizes: Sequence[int]) -> None:
        """Note the inputs that will be read, by their sizes in bytes, before the first is."""
        ...

    def refuses(self, number: int) -> str:
        """Return why an input must not be read; "" to read it."""
        ...

    def begins(self, number: int, size: int) -> None:
        """Note that an input of `size` bytes is being read."""
        ...

    def ends(self, number: int) -> None:
        """Note that an input was read."""
        ...
