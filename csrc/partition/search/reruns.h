#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"

namespace smex {

/// The runs of cheap forward calls of each module (regions.h), or of what is in none: element-wise
/// calls, norms, reductions and copies, no products. A call is among them whose inputs are kept for
/// the backward pass anyway, are made by such a call, or take less than what it makes. By op its
/// region, all of them open (see Op::region); what is no part of one keeps the region that it has.
std::vector<int> cheap_regions(const Graph& graph);

/// What the backward pass may run again in place of keeping it, in the order of the seconds that
/// each costs for a byte that it saves: runs of cheap calls, then whole modules.
class Reruns {
 public:
  enum class Choice {
    kAll,      ///< both
    kModules,  ///< modules alone, the first ones, which are kept longest, first
  };

  /// Seconds and bytes are those of a plan whose regions are the graph's: at the point where it
  /// takes the most. With a null machine seconds are those of a common one.
  Reruns(const Graph& graph, const Plan& plan, const Machine* machine,
         const std::set<std::string>& views, Choice choice);

  size_t count() const { return moves_.size(); }
  /// By op the region when the first `count` of them run again.
  std::vector<int> regions(size_t count) const;

 private:
  /// Some calls become a region: a run of cheap ones, or a module in place of its runs.
  struct Move {
    double seconds = 0;  ///< beside what the ones before it of the same module cost
    double bytes = 0;    ///< that are saved, likewise
    std::vector<OpId> ops;
    int region = kNoRegion;

    double price() const;
  };
  void weigh(const Graph& graph, const Plan& plan, const Machine* machine,
             const std::set<std::string>& views, const std::vector<int>& regions,
             std::vector<Move>& moves) const;
  void add_module(Move whole, std::vector<Move> runs);

  std::vector<int> own_;  ///< by op the region of its checkpoint
  std::vector<Move> moves_;
};

}  // namespace smex
