// The kernel, for both ways to register it: nothing here is of torch.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

// out[i] = y[i] + alpha * x[i] for n floats on the GPU, on a stream.
cudaError_t scaled_add_on_gpu(const float* x, const float* y, float alpha, float* out, int64_t n,
                              cudaStream_t stream);

inline void scaled_add_on_cpu(const float* x, const float* y, float alpha, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = y[i] + alpha * x[i];
}
