"""GF1xx: runtimes that meet in one process."""

from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes import (
    cuda_libraries,
    cuda_majors,
    cudart_copies,
    cudart_static,
    cxx_libraries,
    halide_runtimes,
    library_twice,
    openmp_copies,
    runtimes_hashed,
    sdk_versions,
    user_build_copies,
)

RULES: tuple[Rule, ...] = (
    runtimes_hashed.RULE,
    cudart_copies.RULE,
    cudart_static.RULE,
    cuda_majors.RULE,
    openmp_copies.RULE,
    sdk_versions.RULE,
    cxx_libraries.RULE,
    library_twice.RULE,
    cuda_libraries.RULE,
    user_build_copies.RULE,
    halide_runtimes.RULE,
)
