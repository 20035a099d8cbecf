"""What is read from a wheel's `.dist-info` folder. Data only; readers make them."""

from collections.abc import Mapping
from typing import NamedTuple


class Record(NamedTuple):
    """What is kept of a RECORD: of most files it says what the archive says, too."""

    unlisted: tuple[str, ...]  # files of the wheel that it does not list
    digests: Mapping[str, str]  # "sha256=..." of the libraries that are in the wheel
    # hash and size in rows of no file, of another size, or without a hash
    odd: Mapping[str, tuple[str, int | None]]
    more: int = 0  # further rows of no file of the wheel


class Identity(NamedTuple):
    """The name and the version that some part of the wheel gives it, as written; "" for what it does not say."""

    place: str  # "METADATA", "the .dist-info folder"
    name: str
    version: str
