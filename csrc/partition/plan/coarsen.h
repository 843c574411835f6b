#pragma once

#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// How much of the graph is taken to be cut alike: each has what is before it.
enum class Merge {
  kGradients,  ///< a parameter and its gradient, which always are
  kSteps,      ///< unrolled steps that apply the same parameter, and equal ops on merged operands
  kPointwise,  ///< the equal-shaped operands of point-wise ops
};

/// The semantic graph with what is cut alike merged (Tofu §5.1).
struct CoarseGraph {
  std::vector<int> group_of;  ///< per value; groups are numbered in order of first member
  std::vector<std::vector<ValueId>> groups;
  std::vector<int> class_of;  ///< per op: ops of one class have equal specs and operand groups
  std::vector<std::vector<OpId>> classes;
};

/// `apart` are values that are merged with each other only, those that may stay pending; none when
/// empty.
CoarseGraph coarsen(const Graph& graph, const std::vector<bool>& apart = {},
                    Merge merge = Merge::kPointwise);

/// Every operand of the spec is read at exactly the output's indices, or broadcast.
bool is_pointwise(const tdl::Spec& spec);
/// The op only moves data: its body is one read.
bool is_data_movement(const tdl::Spec& spec);

}  // namespace smex
