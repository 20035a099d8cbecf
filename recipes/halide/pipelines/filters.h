/* The functions of the library. They return 0, or an error code of Halide after its error handler was called. */
struct halide_buffer_t;

int blur(struct halide_buffer_t *source, struct halide_buffer_t *result);
int unsharp(struct halide_buffer_t *source, float amount, struct halide_buffer_t *result);
