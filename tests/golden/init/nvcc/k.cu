#include <pybind11/numpy.h>
__global__ void k();
