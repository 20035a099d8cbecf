"""GF1xx: runtimes that meet in one process. Each module is one rule."""

from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes import (
    cuda_libraries,
    cuda_majors,
    cudart_images,
    cudart_static,
    cxx_libraries,
    library_twice,
    openmp_images,
    runtimes_hashed,
    sdk_versions,
    user_build_copies,
)

RULES: tuple[Rule, ...] = (
    runtimes_hashed,
    cudart_images,
    cudart_static,
    cuda_majors,
    openmp_images,
    sdk_versions,
    cxx_libraries,
    library_twice,
    cuda_libraries,
    user_build_copies,
)
