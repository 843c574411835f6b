#pragma once

#include <map>
#include <vector>

#include "partition/search/minimise/factor_graph.h"
#include "partition/search/recursion/costs.h"

namespace smex {

/// The choice of some steps as a factor graph: a variable for each group, in their order, and one
/// for each op class whose groups have too many choices for a table of all.
class StepProblem {
 public:
  StepProblem(const MergedGraph& merged, const Domains& domains);

  /// Adds the costs of the next op class, which this keeps a reference to.
  void add(const OpCosts& costs);
  const FactorGraph& factors() const { return factors_; }
  /// What an op class does under an assignment.
  const Strategy& strategy(size_t op_class, const Assignment& chosen) const;

 private:
  void add_factor(const std::vector<int>& groups, int variable, const std::vector<double>& table,
                  double repeats);

  static constexpr int kNoVariable = -1;

  const MergedGraph& merged_;
  const Domains& domains_;
  FactorGraph factors_;
  std::map<std::vector<int>, size_t> positions_;  ///< by variables, in `factors_.factors`
  std::vector<const OpCosts*> costs_;             ///< by op class
  std::vector<int> variables_;                    ///< by op class
};

}  // namespace smex
