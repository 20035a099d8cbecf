# Stands in for CPM.cmake, which cufinufft's CMake would download: it takes the one package that a CUDA build
# of cufinufft asks for, CCCL, from the CUDA toolkit at hand. `CPM_SOURCE_CACHE` in gpuforge.toml leads here.
macro(CPMAddPackage)
    cmake_parse_arguments(_cpm "" "NAME" "" ${ARGN})
    if(NOT _cpm_NAME STREQUAL "CCCL")
        message(FATAL_ERROR "This recipe has no offline source for '${_cpm_NAME}'; add it to the overlay")
    endif()
    find_package(CCCL CONFIG REQUIRED
        HINTS "$ENV{CUDAToolkit_ROOT}/lib/cmake/cccl" "$ENV{CUDAToolkit_ROOT}/lib64/cmake/cccl"
        NO_DEFAULT_PATH)
endmacro()
