"""GF2xx: which package or wheel provides each NEEDED or opened library."""

from gpuforge.audit.rules.providers import (
    dependency_undeclared,
    dlopen_undeclared,
    driver_grafted,
    driver_needed,
    import_undeclared,
    parts_missing,
    provider_major,
    provider_missing,
    provider_preloaded,
    provider_undeclared,
    provider_unreachable,
    soname_kept,
    symbols_missing,
    underlinked,
    unstable_functions,
    unused_grafts,
    versions_without_needed,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    provider_missing.RULE,
    provider_unreachable.RULE,
    provider_undeclared.RULE,
    provider_major.RULE,
    provider_preloaded.RULE,
    driver_needed.RULE,
    driver_grafted.RULE,
    dlopen_undeclared.RULE,
    unused_grafts.RULE,
    soname_kept.RULE,
    versions_without_needed.RULE,
    underlinked.RULE,
    parts_missing.RULE,
    dependency_undeclared.RULE,
    symbols_missing.RULE,
    unstable_functions.RULE,
    import_undeclared.RULE,
)
