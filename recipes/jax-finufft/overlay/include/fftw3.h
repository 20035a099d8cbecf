/* lib/jax_finufft_cpu.h includes this header and uses nothing of it. FINUFFT is built with DUCC's FFT instead. */
