# Stands in for CPM.cmake, which FINUFFT's CMake would download. What FINUFFT would fetch with it comes from the CUDA
# toolkit and from the sdists that gpuforge.toml pins beside this folder.
get_filename_component(_overlay "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
set(GPUFORGE_OVERLAY "${_overlay}" CACHE INTERNAL "")

macro(CPMAddPackage)
    cmake_parse_arguments(_cpm "" "NAME" "" ${ARGN})
    if(_cpm_NAME STREQUAL "CCCL")
        find_package(CCCL CONFIG REQUIRED
            HINTS "$ENV{CUDAToolkit_ROOT}/lib/cmake/cccl" "$ENV{CUDAToolkit_ROOT}/lib64/cmake/cccl"
            NO_DEFAULT_PATH)
    elseif(_cpm_NAME STREQUAL "ducc0")
        set(ducc0_SOURCE_DIR "${GPUFORGE_OVERLAY}/ducc0")
        set(ducc0_ADDED TRUE)
    elseif(_cpm_NAME STREQUAL "xsimd")
        add_library(xsimd INTERFACE)
        target_include_directories(xsimd SYSTEM INTERFACE "${GPUFORGE_OVERLAY}/pythran/pythran")
    else()
        message(FATAL_ERROR "This recipe has no offline source for '${_cpm_NAME}'; add it to the overlay")
    endif()
endmacro()
