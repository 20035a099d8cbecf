"""GF2xx: which package or wheel provides each NEEDED or opened library. Each module is one rule."""

from gpuforge.audit.rules.providers import (
    dependency_undeclared,
    dlopen_undeclared,
    driver_grafted,
    driver_needed,
    parts_missing,
    provider_major,
    provider_missing,
    provider_preloaded,
    provider_undeclared,
    provider_unreachable,
    soname_kept,
    symbols_missing,
    underlinked,
    unused_grafts,
    versions_without_needed,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    provider_missing,
    provider_unreachable,
    provider_undeclared,
    provider_major,
    provider_preloaded,
    driver_needed,
    driver_grafted,
    dlopen_undeclared,
    unused_grafts,
    soname_kept,
    versions_without_needed,
    underlinked,
    parts_missing,
    dependency_undeclared,
    symbols_missing,
)
