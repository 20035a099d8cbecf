"""This machine's folder for everything that is kept between runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import platformdirs

VARIABLE = "GPUFORGE_CACHE_DIR"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that GPUFORGE_CACHE_DIR names, else the user's cache folder."""
    named = environ.get(VARIABLE)
    return Path(named) if named else Path(platformdirs.user_cache_dir("gpuforge"))
