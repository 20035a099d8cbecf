template <int N> __global__ void k();
