#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/layout.h"
#include "tdl/spec.h"

namespace smex {

/// Dimensions that are always cut alike: an index links every dimension where it stands alone.
/// `grain(value, dim)` has the alignment that reshapes along the class ask for, and the bounds that
/// the graph gives one of its dimensions.
class DimClasses {
 public:
  explicit DimClasses(const Graph& graph);
  Grain grain(ValueId value, size_t dim) const;
  /// By dimension of the value.
  std::vector<Grain> grains(ValueId value) const;
  /// Of an op's index: that of the class its axes and reads belong to.
  Grain grain(const Op& op, int index) const;
  /// derive_splits of the Spec of an op or a fused call of the graph, once for calls that share it;
  /// none without a Spec. Throws InternalError for the Spec of another graph.
  const std::vector<tdl::Split>& splits(const Op& op) const;

 private:
  int find(int node) const;
  std::vector<int> offset_;  ///< first node of a value
  mutable std::vector<int> parent_;
  std::vector<Grain> grains_;
  std::shared_ptr<const std::vector<Weighting>> weightings_;
  std::unordered_map<const tdl::Spec*, std::vector<tdl::Split>> splits_;
  std::vector<std::vector<int>> op_nodes_;  ///< per op and index one node of its class, or -1
};

}  // namespace smex
