// The operation on the CPU: in the wheel, and compiled again on the user's machine by g++.
#include "op.h"

extern "C" void apply(unsigned long long n, float a, const float *x, float *y)
{
    for (unsigned long long i = 0; i < n; i++)
        y[i] = OP(a, x[i], y[i]);
}
