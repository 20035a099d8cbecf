// The passive leak of the membrane.
#include "mechanisms.h"

static void initial(int, const double *, double *) {}

static void advance(int cells, double, const double *v, double *, double *current)
{
#pragma acc parallel loop copyin(v[0 : cells]) copy(current[0 : cells])
    for (int i = 0; i < cells; ++i)
        current[i] += 0.3 * (v[i] + 54.3);
}

MECHANISM(leak, 0, initial, advance);
