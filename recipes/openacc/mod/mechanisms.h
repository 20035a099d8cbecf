/* What the host and every mechanism library agree on. gpuforge.toml declares it as the ABI: a library that was
   compiled with another text of this file is refused before it is loaded. */
#ifndef MECHANISMS_H
#define MECHANISMS_H

#ifdef __cplusplus
extern "C" {
#endif

/* One mechanism of a membrane. Arrays have one element for each cell; `state` has `states` such arrays in a row. */
struct mechanism {
    const char *name;
    int states;
    void (*initial)(int cells, const double *v, double *state);
    /* Advance the state by dt (ms) at the voltages v (mV), and add the mechanism's current (uA/cm2) to `current`. */
    void (*advance)(int cells, double dt, const double *v, double *state, double *current);
    struct mechanism *next;
};

/* The one function that the host looks up: the first mechanism of the library, in the order of their names. */
const struct mechanism *mechanisms(void);

/* For the library's own sources: make a mechanism known when the library is loaded. */
int add_mechanism(struct mechanism *added);

#ifdef __cplusplus
}
#endif

#define MECHANISM(NAME, STATES, INITIAL, ADVANCE)                              \
    static struct mechanism NAME##_mechanism = {#NAME, STATES, INITIAL, ADVANCE, 0}; \
    static const int NAME##_added = add_mechanism(&NAME##_mechanism)

#endif
