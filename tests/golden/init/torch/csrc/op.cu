#include <curand_kernel.h>
__global__ void f() {}
