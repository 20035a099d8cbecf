"""GF7xx: the wheel as a package."""

from gpuforge.audit.rules.package import (
    common_names,
    damaged_files,
    invalid_metadata,
    kernel_sets,
    kernels_wheels,
    large_wheel,
    left_over,
    overwritten,
    purelib,
    record_mismatch,
    refused,
    requirements_conflict,
    source_sets,
    stored_twice,
    surprising,
    too_large,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    kernel_sets.RULE,
    source_sets.RULE,
    record_mismatch.RULE,
    invalid_metadata.RULE,
    damaged_files.RULE,
    purelib.RULE,
    stored_twice.RULE,
    large_wheel.RULE,
    overwritten.RULE,
    requirements_conflict.RULE,
    kernels_wheels.RULE,
    refused.RULE,
    surprising.RULE,
    too_large.RULE,
    left_over.RULE,
    common_names.RULE,
)
