"""GF5xx: platform tags, Python ABIs and ELF flags. Each module is one rule."""

from gpuforge.audit.rules.platform import (
    cpu_level,
    debug_info,
    executable_stack,
    extensions_missing,
    platform_tag,
    python_abi,
    relro_missing,
    text_relocations,
    wheel_tags,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    platform_tag,
    wheel_tags,
    executable_stack,
    python_abi,
    cpu_level,
    text_relocations,
    relro_missing,
    debug_info,
    extensions_missing,
)
