TITLE M-type potassium current (Yamada, Koch and Adams 1989)

NEURON {
    THREADSAFE
    SUFFIX km
    USEION k READ ek WRITE ik
    RANGE gbar, g, ninf, ntau
}

UNITS {
    (mV) = (millivolt)
    (mA) = (milliamp)
    (S) = (siemens)
}

PARAMETER {
    gbar = 0.0003 (S/cm2)
    taumax = 1000 (ms)
}

ASSIGNED {
    v (mV)
    ek (mV)
    ik (mA/cm2)
    g (S/cm2)
    ninf
    ntau (ms)
}

STATE { n }

BREAKPOINT {
    SOLVE states METHOD cnexp
    g = gbar * n
    ik = g * (v - ek)
}

INITIAL {
    rates(v)
    n = ninf
}

DERIVATIVE states {
    rates(v)
    n' = (ninf - n) / ntau
}

PROCEDURE rates(v (mV)) {
    ninf = 1 / (1 + exp(-(v + 35) / 10))
    ntau = taumax / (3.3 * exp((v + 35) / 20) + exp(-(v + 35) / 20))
}
