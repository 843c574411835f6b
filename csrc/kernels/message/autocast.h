// What autocast makes of the operators on messages: features in the lower precision, as matrix
// products are (sums are kept in float32 by the kernels); the softmax of edges in float32, as
// torch's softmax is.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace smex::kernels {

/// While it lives, operators are called below autocast.
class BelowAutocast {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA})};
};

/// The device whose autocast says how features are lowered.
inline at::DeviceType device_of(at::TensorList edges) {
  TORCH_CHECK_VALUE(!edges.empty(),
                    "smex: expected edges as [indptr, indices] or [indptr, indices, "
                    "eids], found an empty list");
  return edges[0].device().type();
}

inline std::vector<at::Tensor> lower(at::TensorList tensors, at::DeviceType device) {
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  std::vector<at::Tensor> result;
  for (const at::Tensor& x : tensors) result.push_back(at::autocast::cached_cast(type, x, device));
  return result;
}

}  // namespace smex::kernels
