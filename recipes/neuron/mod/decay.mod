TITLE synapse whose conductance jumps with each event and decays

NEURON {
    THREADSAFE
    POINT_PROCESS Decay
    NONSPECIFIC_CURRENT i
    RANGE tau, e, i
}

UNITS {
    (nA) = (nanoamp)
    (mV) = (millivolt)
    (uS) = (microsiemens)
}

PARAMETER {
    tau = 2 (ms) <1e-9, 1e9>
    e = 0 (mV)
}

ASSIGNED {
    v (mV)
    i (nA)
}

STATE { g (uS) }

INITIAL { g = 0 }

BREAKPOINT {
    SOLVE states METHOD cnexp
    i = g * (v - e)
}

DERIVATIVE states { g' = -g / tau }

NET_RECEIVE (weight (uS)) { g = g + weight }
