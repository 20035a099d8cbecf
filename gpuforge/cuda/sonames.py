"""Parts of library names: a SONAME or a file name, "libcudart.so.12"."""

import re

_LONGEST = 255  # characters; no file system has longer names
# In the name of a grafted library, the hash of the original: auditwheel's libx-0a1b2c3d.so.1, before the first dot
# (libmvec-2-0a1b2c3d.28.so), and delocate's libx.0a1b2c3d.so.1
GRAFT_HASH = re.compile(r"(?:(?<=-)|(?<=\.))[0-9a-f]{8}(?=\.so\b)|(?<=-)[0-9a-f]{8}(?=\.[^/\s]{1,99}?\.so\b)")


def plain_name(filename: str) -> str:
    """Return the name that a library had before it was grafted."""
    if not filename.startswith(("lib", "ld-")) or len(filename) > _LONGEST:
        return filename
    found = GRAFT_HASH.search(filename, 4)
    return filename[: found.start() - 1] + filename[found.end() :] if found else filename


def graft_hash(path: str) -> str:
    """Return the hash in the name of a grafted library, "" for another name or path."""
    found = GRAFT_HASH.search(path.rpartition("/")[2])
    return found[0] if found else ""


def stem(name: str) -> str:
    """Return a name up to `.so`: "libcudart" of libcudart.so.12."""
    return name.partition(".so")[0]


def bare(name: str) -> str:
    """Return a name in the form of a linker's `-l`, without "lib" and ".so": "cudart" of libcudart.so.12."""
    return stem(name).removeprefix("lib")


def unversioned(name: str) -> str:
    """Return a name without the version after `.so`: "libcudart.so" of libcudart.so.12."""
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
