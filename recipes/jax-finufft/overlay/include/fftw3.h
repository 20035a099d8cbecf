/* lib/jax_finufft_cpu.cc takes these values of FFTW's API from its header, and nothing else: FINUFFT is built with
 * DUCC's FFT, which ignores them. */
#define FFTW_MEASURE (0U)
#define FFTW_EXHAUSTIVE (1U << 3)
#define FFTW_PATIENT (1U << 5)
#define FFTW_ESTIMATE (1U << 6)
#define FFTW_WISDOM_ONLY (1U << 21)
