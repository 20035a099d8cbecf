// The same operator on ATen's C++ interface, which changes with every release of torch: one wheel for each.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernel.h"

namespace {

void check(const at::Tensor& x, const at::Tensor& y) {
  for (const at::Tensor* each : {&x, &y}) {
    TORCH_CHECK(each->scalar_type() == at::kFloat, "scaled_add takes float32 tensors");
    TORCH_CHECK(each->is_contiguous(), "scaled_add takes contiguous tensors");
  }
  TORCH_CHECK(x.sizes() == y.sizes(), "scaled_add takes tensors of one shape");
  TORCH_CHECK(x.device() == y.device(), "scaled_add takes tensors of one device");
}

at::Tensor on_cpu(const at::Tensor& x, const at::Tensor& y, double alpha) {
  check(x, y);
  at::Tensor out = at::empty_like(x);
  scaled_add_on_cpu(x.const_data_ptr<float>(), y.const_data_ptr<float>(), static_cast<float>(alpha),
                    out.mutable_data_ptr<float>(), x.numel());
  return out;
}

at::Tensor on_cuda(const at::Tensor& x, const at::Tensor& y, double alpha) {
  check(x, y);
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty_like(x);
  C10_CUDA_CHECK(scaled_add_on_gpu(x.const_data_ptr<float>(), y.const_data_ptr<float>(), static_cast<float>(alpha),
                                   out.mutable_data_ptr<float>(), x.numel(), c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY(scaled_add, library) { library.def("scaled_add(Tensor x, Tensor y, float alpha) -> Tensor"); }

TORCH_LIBRARY_IMPL(scaled_add, CPU, library) { library.impl("scaled_add", &on_cpu); }

TORCH_LIBRARY_IMPL(scaled_add, CUDA, library) { library.impl("scaled_add", &on_cuda); }
