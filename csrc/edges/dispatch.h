// From torch's type of ids to that of the torch-free code.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace smex {

/// Calls `body(I{})` with the type of ids, int32_t or int64_t, and returns what it returns.
template <typename Body>
decltype(auto) dispatch_index(at::ScalarType ids, const Body& body) {
  return ids == at::kInt ? body(int32_t{}) : body(int64_t{});
}
template <typename Body>
decltype(auto) dispatch_index(const at::Tensor& ids, const Body& body) {
  return dispatch_index(ids.scalar_type(), body);
}

}  // namespace smex
