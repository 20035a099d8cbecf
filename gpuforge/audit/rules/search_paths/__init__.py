"""GF3xx: RPATH and RUNPATH, and the paths in build files."""

from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.search_paths import (
    build_files,
    library_path,
    rpath_absolute,
    rpath_escaping,
    rpath_inherited,
    rpath_order,
    rpath_relative,
)

RULES: tuple[Rule, ...] = (
    rpath_relative.RULE,
    rpath_absolute.RULE,
    rpath_escaping.RULE,
    rpath_inherited.RULE,
    rpath_order.RULE,
    build_files.RULE,
    library_path.RULE,
)
