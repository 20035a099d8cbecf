// Hodgkin and Huxley's sodium and potassium channels of the squid's axon (J. Physiol. 117, 1952), at 6.3 degrees.
#include "mechanisms.h"

#include <math.h>

#pragma acc routine seq
static double vtrap(double x, double y)
{
    return fabs(x / y) < 1e-6 ? y * (1.0 - x / y / 2.0) : x / (exp(x / y) - 1.0);
}

// One gate's step towards its steady state; exact for a constant voltage.
#pragma acc routine seq
static double gate(double value, double alpha, double beta, double dt)
{
    const double rate = alpha + beta;
    return alpha / rate + (value - alpha / rate) * exp(-dt * rate);
}

static void initial(int cells, const double *v, double *state)
{
    double *m = state, *h = state + cells, *n = state + 2 * cells;
    for (int i = 0; i < cells; ++i) {
        const double am = 0.1 * vtrap(-(v[i] + 40.0), 10.0), bm = 4.0 * exp(-(v[i] + 65.0) / 18.0);
        const double ah = 0.07 * exp(-(v[i] + 65.0) / 20.0), bh = 1.0 / (exp(-(v[i] + 35.0) / 10.0) + 1.0);
        const double an = 0.01 * vtrap(-(v[i] + 55.0), 10.0), bn = 0.125 * exp(-(v[i] + 65.0) / 80.0);
        m[i] = am / (am + bm);
        h[i] = ah / (ah + bh);
        n[i] = an / (an + bn);
    }
}

static void advance(int cells, double dt, const double *v, double *state, double *current)
{
#pragma acc parallel loop copyin(v[0 : cells]) copy(state[0 : 3 * cells], current[0 : cells])
    for (int i = 0; i < cells; ++i) {
        double m = state[i], h = state[cells + i], n = state[2 * cells + i];
        m = gate(m, 0.1 * vtrap(-(v[i] + 40.0), 10.0), 4.0 * exp(-(v[i] + 65.0) / 18.0), dt);
        h = gate(h, 0.07 * exp(-(v[i] + 65.0) / 20.0), 1.0 / (exp(-(v[i] + 35.0) / 10.0) + 1.0), dt);
        n = gate(n, 0.01 * vtrap(-(v[i] + 55.0), 10.0), 0.125 * exp(-(v[i] + 65.0) / 80.0), dt);
        current[i] += 120.0 * m * m * m * h * (v[i] - 50.0) + 36.0 * n * n * n * n * (v[i] + 77.0);
        state[i] = m;
        state[cells + i] = h;
        state[2 * cells + i] = n;
    }
}

MECHANISM(hh, 3, initial, advance);
