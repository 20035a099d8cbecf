// The operation on any OpenCL device, compiled by its driver when it is first used.
#include "op.h"

__kernel void apply(ulong n, float a, __global const float *x, __global float *y)
{
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0))
        y[i] = OP(a, x[i], y[i]);
}
