// The operation on NVIDIA's GPUs, compiled on the user's machine by nvcc or NVRTC.
#include "op.h"

extern "C" __global__ void apply(unsigned long long n, float a, const float *x, float *y)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = OP(a, x[i], y[i]);
}
