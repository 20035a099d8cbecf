"""GF5xx: platform tags, Python ABIs and ELF flags."""

from gpuforge.audit.rules.platform import (
    cpu_level,
    debug_info,
    executable_stack,
    extensions_missing,
    platform_tag,
    python_abi,
    relro_missing,
    segments_broken,
    small_pages,
    text_relocations,
    wheel_tags,
)
from gpuforge.audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    platform_tag.RULE,
    wheel_tags.RULE,
    executable_stack.RULE,
    python_abi.RULE,
    cpu_level.RULE,
    text_relocations.RULE,
    relro_missing.RULE,
    debug_info.RULE,
    extensions_missing.RULE,
    segments_broken.RULE,
    small_pages.RULE,
)
