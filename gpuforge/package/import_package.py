"""The import package of a wheel: its folder in the unpacked wheel."""

from __future__ import annotations

from pathlib import Path

from gpuforge.errors import ActionError


def find(tree: Path, import_package: str) -> Path | None:
    """Return the folder of an import package ("saxpy", "a.b") in an unpacked wheel, None if it has none."""
    below = Path(*import_package.split("."))
    return next((root / below for root in _roots(tree) if (root / below).is_dir()), None)


def folder(tree: Path, import_package: str) -> Path:
    """Return the folder of an import package in an unpacked wheel; raises ActionError if it has none."""
    found = find(tree, import_package)
    if found is not None:
        return found
    there = {
        path.name
        for root in _roots(tree)
        for path in root.iterdir()
        if path.is_dir() and path.name.isidentifier()
    }
    raise ActionError.of(
        f"the wheel has no package {import_package!r} to put the kernels in",
        hint=f"it has {', '.join(sorted(there)) or 'no package at all'}: set [package] import",
    )


def _roots(tree: Path) -> list[Path]:
    return [tree, *sorted(tree.glob("*.data/platlib")), *sorted(tree.glob("*.data/purelib"))]
