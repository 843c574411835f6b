// From torch's types to those of the torch-free kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "edges/dispatch.h"
#include "kernels/cpu/half.h"

namespace smex::kernels {

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls `f(TypeTag<T>())` with the kernels' type of features.
template <typename Function>
void dispatch_features(const char* op, at::ScalarType features, const Function& f) {
  switch (features) {
    case at::kFloat:
      return f(TypeTag<float>());
    case at::kDouble:
      return f(TypeTag<double>());
    case at::kBFloat16:
      return f(TypeTag<BFloat16>());
    case at::kHalf:
      return f(TypeTag<Half>());
    default:
      TORCH_CHECK_TYPE(false, op, ": expected float32, float64, bfloat16 or float16, found ",
                       features);
  }
}

/// Calls `f(TypeTag<T>(), TypeTag<I>())` with the kernels' types of features and ids.
template <typename Function>
void dispatch_types(const char* op, at::ScalarType features, at::ScalarType ids,
                    const Function& f) {
  dispatch_features(op, features, [&](auto feature) {
    dispatch_index(ids, [&]<typename I>(I) { f(feature, TypeTag<I>()); });
  });
}

template <typename T>
const T* data_of(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <typename T>
T* mutable_data_of(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

/// The type in which sums of `type` are kept: that of accumulate_t.
inline at::ScalarType sum_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

/// The operands of a message as kernels read them: dense rows.
template <typename T>
class DenseOperands {
 public:
  explicit DenseOperands(at::TensorList operands) {
    for (const at::Tensor& x : operands) {
      kept_.push_back(x.contiguous());
      rows_.push_back(data_of<T>(kept_.back()));
    }
  }

  /// By index; valid as long as this lives.
  const T* const* rows() const { return rows_.data(); }

 private:
  std::vector<at::Tensor> kept_;
  std::vector<const T*> rows_;
};

}  // namespace smex::kernels
