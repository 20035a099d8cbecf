// The fallback: compiled by gpuforge for the architectures in gpuforge.toml, loaded through the driver.
// The signature is in the wheel's index, so that arguments of other types are errors.
__global__ void saxpy(unsigned long long n, float a, const float *x, float *y)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = a * x[i] + y[i];
}
