#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "tdl/formula.h"

namespace smex {

/// An element-wise call of floating-point numbers of one type, as smex::pointwise can compute it.
struct ElementwiseCall {
  const Op* op = nullptr;
  int operations = 0;          ///< of its formula
  std::vector<Slot> operands;  ///< by input of the op
  Slot out = kNoSlot;
};

/// Finds the element-wise calls of a graph's programs. What it knows of a Spec it finds out once.
class ElementwiseCalls {
 public:
  explicit ElementwiseCalls(const Graph& graph) : graph_(graph) {}

  /// Whether the instruction is one; it is written to `call` then.
  bool find(const ComputeInstr& compute, ElementwiseCall& call);

  const std::string& dtype(const ElementwiseCall& call) const {
    return graph_.value(call.op->outputs[0]).dtype;
  }

 private:
  int operations_of(const Op& op);
  bool has_one_type(const Op& op) const;

  const Graph& graph_;
  std::unordered_map<const tdl::Spec*, std::optional<tdl::Formula>> by_spec_;
  std::vector<int> by_op_;
};

}  // namespace smex
