"""The rules of the audit, one in each module: pure functions from the link graph to findings."""

from gpuforge.audit.rules import gpu_code, package, platform, providers, roles, runtimes, search_paths
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    *runtimes.RULES,
    *providers.RULES,
    *search_paths.RULES,
    *gpu_code.RULES,
    *platform.RULES,
    *roles.RULES,
    *package.RULES,
)
