"""GF4xx: GPU code."""

from gpuforge.audit.rules.gpu_code import (
    architectures_missing,
    jit_only,
    mixed_toolkits,
    newer_gpus,
    packed_code,
    ptx_empty,
    ptx_missing,
    relocatable_left,
    specific_targets,
    tool_outdated,
    undeclared_code,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    architectures_missing.RULE,
    ptx_missing.RULE,
    newer_gpus.RULE,
    specific_targets.RULE,
    ptx_empty.RULE,
    mixed_toolkits.RULE,
    relocatable_left.RULE,
    jit_only.RULE,
    undeclared_code.RULE,
    tool_outdated.RULE,
    packed_code.RULE,
)
