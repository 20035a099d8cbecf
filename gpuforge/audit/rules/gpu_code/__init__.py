"""GF4xx: GPU code. Each module is one rule."""

from gpuforge.audit.rules.gpu_code import (
    architectures_missing,
    jit_only,
    mixed_toolkits,
    newer_gpus,
    ptx_empty,
    ptx_missing,
    relocatable_left,
    specific_targets,
    undeclared_code,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    architectures_missing,
    ptx_missing,
    newer_gpus,
    specific_targets,
    ptx_empty,
    mixed_toolkits,
    relocatable_left,
    jit_only,
    undeclared_code,
)
