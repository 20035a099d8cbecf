#include <nccl.h>
#include <numpy/arrayobject.h>
#pragma acc parallel loop
