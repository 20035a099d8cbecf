"""The rules of the audit, in a folder for each hundred of codes: pure functions from the link graph to findings."""

from gpuforge.audit.rules import gpu_code, package, platform, providers, roles, runtimes, search_paths
from gpuforge.audit.rules.package import damaged_files, too_large
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes import runtimes_hashed

# What they find of one package, others that are in a process with it have, too; or what is known of it is not all.
OF_PROCESSES: tuple[Rule, ...] = (
    *(rule for rule in runtimes.RULES if rule is not runtimes_hashed.RULE),  # it is about users who link
    damaged_files.RULE,
    too_large.RULE,
)
RULES: tuple[Rule, ...] = (
    *runtimes.RULES,
    *providers.RULES,
    *search_paths.RULES,
    *gpu_code.RULES,
    *platform.RULES,
    *roles.RULES,
    *package.RULES,
)
