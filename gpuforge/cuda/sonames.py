"""Names of libraries, taken apart: a SONAME or a file name, "libcudart.so.12"."""

import re

_LONGEST = 255  # characters; no file system has longer names
# auditwheel puts its hash before the first dot: libmvec-2-0a1b2c3d.28.so
_MANGLED = r"((?:lib|ld-).+?)(?:[-.][0-9a-f]{8}(?=\.so)|-[0-9a-f]{8}(?=\.))((?:\..+?)?\.so(?:\..+)?)"


def plain_name(filename: str) -> str:
    """Undo the mangling of grafted libraries: auditwheel's `libx-0a1b2c3d.so.1`, delocate's `libx.0a1b2c3d.so.1`."""
    match = re.fullmatch(_MANGLED, filename) if len(filename) <= _LONGEST else None
    return match[1] + match[2] if match else filename


def stem(name: str) -> str:
    """Return a name up to `.so`: "libcudart" of libcudart.so.12."""
    return name.partition(".so")[0]


def bare(name: str) -> str:
    """Return a name as linkers take it after `-l`, without "lib" and what follows: "cudart" of libcudart.so.12."""
    return stem(name).removeprefix("lib")


def unversioned(name: str) -> str:
    """Return a name without what follows `.so`: "libcudart.so" of libcudart.so.12."""
    head, dot_so, _ = name.partition(".so")
    return head + dot_so


def version(name: str) -> str:
    """Return the version in a name: "11.5.117" of libcudart.so.11.5.117, "" of libcudart.so."""
    return name.partition(".so.")[2]


def major(name: str) -> str:
    """Return the first number of the version in a name: "11" of libcudart.so.11.5.117, "" of libcudart.so."""
    return version(name).partition(".")[0]


def cut_to_major(name: str) -> str:
    """Return a name with the first number of its version: "libcudart.so.11" of libcudart.so.11.5.117."""
    return f"{unversioned(name)}.{major(name)}" if version(name) else name
