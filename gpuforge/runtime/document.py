"""Reads the JSON files of kernel sets: bounded, strict, with the same messages as `gpuforge_kernels.h`.

They may be in a folder that others can write to, or in a wheel of anyone. Reading never waits for a pipe. Anything
unexpected is damage, with a message that all readers share.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any, BinaryIO

LARGEST = 4 << 20  # bytes of a JSON file
DEEPEST = 16  # levels of objects and lists
LONGEST_NUMBER = 15  # digits


class Damaged(ValueError):  # noqa: N818  a fact about a file, for the reader to judge
    """A document is not as expected; the message says how."""


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; raises OSError, also for a pipe, without waiting for it."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return open(handle, "rb")


def read(path: str) -> dict[str, Any]:
    with open_file(path) as stream:
        return parse(stream.read(LARGEST + 1))


def parse(data: bytes) -> dict[str, Any]:
    if len(data) > LARGEST:
        raise Damaged(f"it has more than {LARGEST >> 20} MiB")
    try:
        content = json.loads(data.decode("utf-8"), parse_int=_number, parse_constant=_refuse)
        _check(content, 1)
    except (RecursionError, ValueError):
        raise Damaged("it is not valid JSON") from None
    if not isinstance(content, dict):
        raise Damaged("it is not an object")
    return content


def text(entry: dict[str, Any], key: str, otherwise: str | None = None) -> str:
    value = _value(entry, key, otherwise)
    if not isinstance(value, str):
        raise Damaged(f"'{key}' is not text")
    if any(c < " " or c == "\x7f" for c in value):
        raise Damaged(f"'{key}' has a control character")
    return value


def file_name(entry: dict[str, Any], key: str, otherwise: str | None = None) -> str:
    value = text(entry, key, otherwise)
    if "/" in value or value in {".", ".."} or (not value and otherwise is None):
        raise Damaged(f"'{value}' is not the name of a file beside it")
    return value


def file_names(entry: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(file_name({key: value}, key) for value in texts(entry, key))


def whole(entry: dict[str, Any], key: str) -> int:
    value = _value(entry, key)
    if type(value) is not int:
        raise Damaged(f"'{key}' is not a whole number")
    return value


def flag(entry: dict[str, Any], key: str) -> bool:
    value = _value(entry, key)
    if not isinstance(value, bool):
        raise Damaged(f"'{key}' is not true or false")
    return value


def table(entry: dict[str, Any], key: str) -> dict[str, Any]:
    value = _value(entry, key)
    if not isinstance(value, dict):
        raise Damaged(f"'{key}' is not an object")
    return value


def tables(entry: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = _value(entry, key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Damaged(f"'{key}' is not a list of objects")
    return value


def texts(entry: dict[str, Any], key: str) -> tuple[str, ...]:
    value = _value(entry, key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Damaged(f"'{key}' is not a list of texts")
    return tuple(value)


def _value(entry: dict[str, Any], key: str, otherwise: Any = None) -> Any:
    value = entry.get(key, otherwise)
    if value is None and key not in entry:
        raise Damaged(f"'{key}' is missing in it")
    return value


def _number(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(digits)
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity are not JSON


def _check(value: Any, level: int) -> None:
    """Raise ValueError for data that Python's reader accepts: too many levels, half a character, a NUL."""
    if isinstance(value, str):
        value.encode("utf-8")
        if "\0" in value:
            raise ValueError(value)
    elif isinstance(value, (dict, list)):
        if level > DEEPEST:
            raise ValueError(level)
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(item, level + 1)
