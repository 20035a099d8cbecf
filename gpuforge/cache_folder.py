"""This machine's folder for everything that is kept between runs."""

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "GPUFORGE_CACHE_DIR"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that GPUFORGE_CACHE_DIR names, else the user's cache folder."""
    if named := environ.get(VARIABLE):
        return Path(named)
    import platformdirs  # noqa: PLC0415  most calls of a CI system name the folder

    return Path(platformdirs.user_cache_dir("gpuforge"))
