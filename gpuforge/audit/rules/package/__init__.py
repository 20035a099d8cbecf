"""GF7xx: the wheel as a package. Each module is one rule."""

from gpuforge.audit.rules.package import (
    damaged_files,
    invalid_metadata,
    kernel_sets,
    kernels_wheels,
    large_wheel,
    overwritten,
    purelib,
    record_mismatch,
    requirements_conflict,
    source_sets,
    stored_twice,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    kernel_sets,
    source_sets,
    record_mismatch,
    invalid_metadata,
    damaged_files,
    purelib,
    stored_twice,
    large_wheel,
    overwritten,
    requirements_conflict,
    kernels_wheels,
)
