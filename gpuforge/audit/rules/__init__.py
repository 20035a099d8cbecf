"""The audit's rules: one rule, one file, one pure function from the link graph to findings."""

from __future__ import annotations

from gpuforge.audit.rules import (
    architectures,
    cudart_images,
    damaged,
    executable_stack,
    host_only,
    host_only_empty,
    kernel_sets,
    metadata,
    platform_tag,
    provider_major,
    provider_missing,
    provider_preloaded,
    provider_undeclared,
    provider_unreachable,
    ptx_missing,
    record,
    rpath_absolute,
    rpath_relative,
    runtimes_hashed,
    source_sets,
    wheel_tags,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    runtimes_hashed,
    cudart_images,
    provider_missing,
    provider_unreachable,
    provider_undeclared,
    provider_major,
    provider_preloaded,
    rpath_relative,
    rpath_absolute,
    architectures,
    ptx_missing,
    platform_tag,
    wheel_tags,
    executable_stack,
    host_only,
    host_only_empty,
    kernel_sets,
    source_sets,
    record,
    metadata,
    damaged,
)
