"""GF6xx: objects with a role in the manifest: host-only, gpu, user-compiled."""

from gpuforge.audit.rules.roles import (
    gpu_missing,
    host_only,
    host_only_empty,
    host_only_unproved,
    source_paths,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    host_only.RULE,
    host_only_empty.RULE,
    source_paths.RULE,
    host_only_unproved.RULE,
    gpu_missing.RULE,
)
