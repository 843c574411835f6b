#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

#include <vector>

#include "kernels/message/program.h"

namespace smex::kernels {

inline FeatureShape features_of(const at::Tensor& x) {
  return {x.sizes().begin() + 1, x.sizes().end()};
}

/// For each element of a row of `seen` the element of a smaller row.
inline std::vector<int64_t> elements_of(const FeatureShape& part, const FeatureShape& seen) {
  std::vector<int64_t> elements;
  const Broadcast map = broadcast_of(part, seen);
  const int64_t total = c10::multiply_integers(seen);
  for (int64_t i = 0; i < total; ++i) elements.push_back(map.element(i));
  return elements;
}

/// Where the elements of rows are, in each of the three tensors.
struct WinnerPlaces {
  std::vector<int64_t> winner, feature;  ///< by element of `seen`
  int64_t winners, features, count;      ///< elements in a row

  WinnerPlaces(const FeatureShape& out, const FeatureShape& part, const FeatureShape& seen)
      : winner(elements_of(out, seen)),
        feature(elements_of(part, seen)),
        winners(c10::multiply_integers(out)),
        features(c10::multiply_integers(part)),
        count(c10::multiply_integers(seen)) {}
};

}  // namespace smex::kernels
