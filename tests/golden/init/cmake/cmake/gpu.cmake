
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
find_package(NCCL)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 70)
endif()
file(DOWNLOAD https://example.org/x.cmake x.cmake)
target_link_libraries(demo PRIVATE CUDA::cufft_static CUDA::cudart)
