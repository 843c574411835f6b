#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace smex {

/// Dimensions that are always cut alike: an index links every dimension where it stands alone.
/// `granule(value, dim)` is the alignment that reshapes along the class ask for.
class DimClasses {
 public:
  explicit DimClasses(const Graph& graph);
  int64_t granule(ValueId value, size_t dim) const;
  /// By dimension of the value.
  std::vector<int64_t> granules(ValueId value) const;
  /// Granule of an op's index: that of the class its axes and reads belong to.
  int64_t granule(const Op& op, int index) const;

 private:
  int find(int node) const;
  std::vector<int> offset_;  ///< first node of a value
  mutable std::vector<int> parent_;
  std::vector<int64_t> granule_;
  std::vector<std::vector<int>> op_nodes_;  ///< per op and index one node of its class, or -1
};

}  // namespace smex
