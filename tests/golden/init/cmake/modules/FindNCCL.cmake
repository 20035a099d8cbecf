
if(DEMO_SHARED_NCCL)
  set(NAME nccl)
else()
  set(NAME nccl_static)
endif()
find_library(NCCL_LIBRARY NAMES ${NAME})
