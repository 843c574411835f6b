#pragma once

#include <vector>

#include "partition/plan/interner.h"
#include "partition/search/recursion/domains.h"

namespace smex {

/// Numbers the op classes that cost the same, whatever their names, so that layers that repeat are
/// counted once: equal specs and strategies so far, on tensors that are equal, cut alike so far and
/// have the same choices. Numbers hold for all steps.
class OpKinds {
 public:
  explicit OpKinds(const MergedGraph& merged);

  /// Goes to other steps, whose choices are `domains`.
  void begin(const Plan& plan, Steps steps, const Domains& domains);
  /// Equal numbers for equal costs.
  int of(size_t op_class);

 private:
  using Key = std::vector<int64_t>;

  const MergedGraph& merged_;
  /// Each gives equal numbers to equal keys of one sort.
  Interner tensors_;   ///< shape, item size, grains
  Interner meanings_;  ///< of ops: spec, grains of its indices, whether it is random
  Interner cuts_;      ///< tensor, and its cuts in the steps that are given
  Interner choices_;   ///< what a group may do in the steps that are chosen
  Interner kinds_;
  std::vector<int> tensor_;   ///< by value its number in `tensors_`
  std::vector<int> meaning_;  ///< by op class its number in `meanings_`
  // Of the steps that are chosen together:
  Steps steps_;
  const Plan* plan_ = nullptr;
  std::vector<int> cut_;     ///< by value its number in `cuts_`
  std::vector<int> choice_;  ///< by group its number in `choices_`
};

}  // namespace smex
