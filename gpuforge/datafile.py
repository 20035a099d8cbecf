"""TOML tables that are kept in the folder `data` beside the module that reads them."""

from functools import cache
from pathlib import Path
from typing import Any

import tomli


@cache
def load(module: str, name: str) -> dict[str, Any]:
    """Return the content of `data/<name>` beside the file `module` (`__file__`); callers must not change it."""
    return tomli.loads((Path(module).parent / "data" / name).read_text(encoding="utf-8"))
