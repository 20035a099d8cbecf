"""The rules of the audit: pure functions from the link graph to findings, in one module for each group or trade."""

from gpuforge.audit.rules import (
    cuda_runtimes,
    elf_flags,
    embedded_sets,
    families,
    files,
    gpu_code,
    linking,
    metadata,
    needed,
    opened,
    platform_tags,
    rocm,
    roles,
    runtimes,
    search_paths,
    windows,
)
from gpuforge.audit.rules.rule import Rule

_MODULES = (
    *(
        runtimes,
        cuda_runtimes,
        needed,
        opened,
        linking,
        search_paths,
        gpu_code,
        families,
        platform_tags,
        elf_flags,
    ),
    *(rocm, roles, embedded_sets, metadata, files, windows),
)
_FOUND = {each.code: each for module in _MODULES for each in vars(module).values() if isinstance(each, Rule)}
RULES: tuple[Rule, ...] = tuple(_FOUND[code] for code in sorted(_FOUND))
