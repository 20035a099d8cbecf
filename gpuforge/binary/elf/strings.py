"""Reads string tables of ELF files (gABI, "String Table")."""

from collections.abc import Sequence

from gpuforge.binary.search import find
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

LONGEST = 32 << 20  # bytes of a table that are kept and searched
_NAMES = 16  # times the size of a file: limit for the characters of names in one table
_SPARE = 1 << 16  # characters more, for small files


class StringTable:
    """A string table of a file. Its methods raise MalformedError, and MissedError if it was not kept."""

    def __init__(
        self, window: Window, offset: int = 0, size: int = 0, *, content: bytes | None = None
    ) -> None:
        """Use a range of the file, or the `content` of a section that was compressed."""
        self._window, self._offset = window, offset
        self._size = size if content is None else len(content)
        self._all = content
        self.is_searched = (
            content is not None or size <= LONGEST
        )  # else it counts as empty in `has` and `all`
        beyond = offset + size > window.size
        self._too_long = content is None and (size > LONGEST or beyond)

    def text(self, index: int) -> str:
        """Return the string at `index`."""
        if index >= self._size:
            raise MalformedError.of(f"string {index} of a table of {self._size} bytes")
        if self._too_long:
            text = self._window.text(self._offset + index, self._offset + self._size)
            self._window.budget.spend("names", len(text))
            return text
        table = self.all()
        end = table.find(b"\0", index)
        if end < 0:
            raise MalformedError.of(f"the string at byte {self._offset + index} has no end")
        self._window.budget.spend("names", end - index)
        return table[index:end].decode("utf-8", "backslashreplace")

    def texts(self, indexes: Sequence[int]) -> list[str]:
        """Return many strings at once, which may not add up to more than `limit`."""
        if self._too_long:
            return [self.text(index) for index in indexes]
        table = self.all()
        ends = [table.find(b"\0", index) for index in indexes]
        if -1 in ends:
            return [self.text(index) for index in indexes]  # one of them raises
        characters = sum(ends) - sum(indexes)
        if characters > self.limit:
            raise MalformedError.of("its names add up to more than a file of its size can have")
        self._window.budget.spend("names", characters)
        if not table.isascii():
            return [
                table[index:end].decode("utf-8", "backslashreplace")
                for index, end in zip(indexes, ends, strict=True)
            ]
        text = table.decode("ascii")
        return [text[index:end] for index, end in zip(indexes, ends, strict=True)]

    @property
    def limit(self) -> int:
        """The most characters that all names of a file may have together: strings may share their ends."""
        return _NAMES * self._window.size + _SPARE

    def has(self, word: bytes) -> bool:
        """Return whether the bytes are anywhere in the table."""
        return find(self.all(), word) >= 0

    def all(self) -> bytes:
        """Return the whole table, or b"" if it is too long to be searched."""
        if self._all is None:
            self._all = self._window.read(self._offset, self._size) if self.is_searched else b""
        return self._all
