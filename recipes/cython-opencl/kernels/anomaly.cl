#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "anomaly.h"
#include "problem.h"

__kernel void solve(ulong count, __global const double *mean, __global const double *eccentricity,
                    __global double *anomaly, volatile __global int *problem)
{
    size_t i = get_global_id(0);
    if (i >= count)
        return;
    if (!(eccentricity[i] >= 0.0 && eccentricity[i] < 1.0)) {
        FAIL(problem, NOT_AN_ELLIPSE, i);
        return;
    }
    if (!isfinite(mean[i])) {
        FAIL(problem, NOT_FINITE, i);
        return;
    }
    anomaly[i] = eccentric_anomaly(mean[i], eccentricity[i]);
}

/* Move each orbit on by an angle. */
__kernel void advance(ulong count, double angle, __global double *mean)
{
    size_t i = get_global_id(0);
    if (i < count)
        mean[i] += angle;
}
