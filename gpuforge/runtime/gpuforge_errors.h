/* Errors that a kernel finds, raised in Python with the element, the line and the kernel: see `_gpuforge.kernel_errors`.
   For OpenCL C, CUDA and C++. gpuforge has it beside the sources of every object that includes it.

   The kernel's last parameter is `GPUFORGE_ERRORS errors`. Of several errors, any one is reported. */
#ifndef GPUFORGE_ERRORS_H
#define GPUFORGE_ERRORS_H

#define GPUFORGE_OUT_OF_BOUNDS 0x40000000 /* the kind of GPUFORGE_BOUNDS; your own kinds are 1, 2, ... */

#if defined(__OPENCL_VERSION__)
#define GPUFORGE_ERRORS volatile __global int *
#define GPUFORGE_SWAP(at, before, after) atomic_cmpxchg(at, before, after)
#define GPUFORGE_INLINE static inline
#elif defined(__CUDACC__) || defined(__CUDA__) /* by nvcc and NVRTC; by clang without CUDA's headers */
#define GPUFORGE_ERRORS int *
#define GPUFORGE_SWAP(at, before, after) atomicCAS(at, before, after)
#define GPUFORGE_INLINE static __device__ inline
#else
#define GPUFORGE_ERRORS int *
#define GPUFORGE_SWAP(at, before, after) __sync_val_compare_and_swap(at, before, after)
#define GPUFORGE_INLINE static inline
#endif

GPUFORGE_INLINE void gpuforge_fail(GPUFORGE_ERRORS errors, int kind, int line, long element)
{
    if (GPUFORGE_SWAP(&errors[0], 0, kind) == 0) {
        errors[1] = line;
        errors[2] = (int)(element & 0x7fffffff);
        errors[3] = (int)(element >> 31);
    }
}

/* Report an error of a kind for an element, unless a condition holds, and end the work-item. */
#define GPUFORGE_REQUIRE(errors, condition, kind, element) \
    do { \
        if (!(condition)) { \
            gpuforge_fail(errors, kind, __LINE__, (long)(element)); \
            return; \
        } \
    } while (0)

/* Report an index that is not below a length. */
#define GPUFORGE_BOUNDS(errors, index, length) \
    GPUFORGE_REQUIRE(errors, (long)(index) >= 0 && (long)(index) < (long)(length), GPUFORGE_OUT_OF_BOUNDS, index)

#endif
