// Yours to change: the wheel carries this file as source, with the recipe of its compile command beside it.
// Compiled on the user's machine it is a shared library with a C interface, for pointers to GPU memory.
static __device__ float op(float a, float x, float y)
{
    return a * x + y;
}

static __global__ void apply(unsigned long long n, float a, const float *x, float *y)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = op(a, x[i], y[i]);
}

// y[i] = op(a, x[i], y[i]) for i < n, on the default stream; returns a cudaError_t, 0 when the kernel is queued.
extern "C" int saxpy_apply(unsigned long long n, float a, const float *x, float *y)
{
    apply<<<256, 256>>>(n, a, x, y);
    return cudaGetLastError();
}
