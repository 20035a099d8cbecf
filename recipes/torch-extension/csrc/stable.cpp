// The operator on torch's stable ABI: C functions of libtorch, which keep their form for two years after a release.
// https://docs.pytorch.org/docs/stable/notes/libtorch_stable_abi.html
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include "kernel.h"

namespace {

using torch::stable::Tensor;

void check(const Tensor& x, const Tensor& y) {
  for (const Tensor* each : {&x, &y}) {
    STD_TORCH_CHECK(each->scalar_type() == torch::headeronly::ScalarType::Float, "scaled_add takes float32 tensors");
    STD_TORCH_CHECK(each->is_contiguous(), "scaled_add takes contiguous tensors");
  }
  STD_TORCH_CHECK(x.sizes().equals(y.sizes()), "scaled_add takes tensors of one shape");
  STD_TORCH_CHECK(x.get_device() == y.get_device(), "scaled_add takes tensors of one device");
}

const float* data(const Tensor& tensor) { return static_cast<const float*>(tensor.const_data_ptr()); }

Tensor on_cpu(const Tensor& x, const Tensor& y, double alpha) {
  check(x, y);
  Tensor out = torch::stable::empty_like(x);
  scaled_add_on_cpu(data(x), data(y), static_cast<float>(alpha), static_cast<float*>(out.mutable_data_ptr()),
                    x.numel());
  return out;
}

Tensor on_cuda(const Tensor& x, const Tensor& y, double alpha) {
  check(x, y);
  const torch::stable::accelerator::DeviceGuard guard(x.get_device());
  Tensor out = torch::stable::empty_like(x);
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device(), &stream));
  const cudaError_t error =
      scaled_add_on_gpu(data(x), data(y), static_cast<float>(alpha), static_cast<float*>(out.mutable_data_ptr()),
                        x.numel(), static_cast<cudaStream_t>(stream));
  STD_TORCH_CHECK(error == cudaSuccess, "scaled_add: ", cudaGetErrorString(error));
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY(scaled_add, library) {
  library.def("scaled_add(Tensor x, Tensor y, float alpha) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(scaled_add, CPU, library) { library.impl("scaled_add", TORCH_BOX(&on_cpu)); }

STABLE_TORCH_LIBRARY_IMPL(scaled_add, CUDA, library) { library.impl("scaled_add", TORCH_BOX(&on_cuda)); }
