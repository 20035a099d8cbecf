"""The libraries of the wheel that this runtime came with: what is in a process that uses the package."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

_LIBRARY = re.compile(r".*\.so(\.[0-9.]+)?")


def libraries(home: Path, package: str, *, without: str) -> list[Path]:
    """Return the wheel's libraries, but for the kernel set `without`, in whose place another will be loaded.

    `home` is this runtime's folder in the package (an import name). They are those of the wheel's RECORD, or, where
    none is found, those in the top package and the folders `*.libs` beside it.
    """
    site = home.parents[package.count(".") + 1]
    marker = f"{home.relative_to(site).as_posix()}/__init__.py"
    files = _recorded(site, marker) or list(_beside(site, package))
    unused = home / "kernels" / without
    return sorted(
        path
        for path in files
        if _LIBRARY.fullmatch(path.name) and path.is_file() and unused not in path.parents
    )


def _recorded(site: Path, marker: str) -> list[Path]:
    for record in sorted(site.glob("*.dist-info/RECORD")):
        try:
            with record.open(encoding="utf-8", newline="") as stream:
                names = [row[0] for row in csv.reader(stream) if row]
        except (OSError, UnicodeDecodeError, csv.Error):
            continue
        if marker in names:
            return [site / name for name in names]
    return []


def _beside(site: Path, package: str) -> Iterator[Path]:
    yield from (site / package.partition(".")[0]).rglob("*.so*")
    for folder in site.glob("*.libs"):
        yield from folder.glob("*.so*")
