#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "anomaly.h"
#include "gpuforge_errors.h"

enum { NOT_AN_ELLIPSE = 1, NOT_FINITE };

__kernel void solve(ulong count, __global const double *mean, __global const double *eccentricity,
                    __global double *anomaly, GPUFORGE_ERRORS errors)
{
    size_t i = get_global_id(0);
    if (i >= count)
        return;
    GPUFORGE_REQUIRE(errors, eccentricity[i] >= 0.0 && eccentricity[i] < 1.0, NOT_AN_ELLIPSE, i);
    GPUFORGE_REQUIRE(errors, isfinite(mean[i]), NOT_FINITE, i);
    anomaly[i] = eccentric_anomaly(mean[i], eccentricity[i]);
}

/* Move each orbit on by an angle. */
__kernel void advance(ulong count, double angle, __global double *mean)
{
    size_t i = get_global_id(0);
    if (i < count)
        mean[i] += angle;
}
