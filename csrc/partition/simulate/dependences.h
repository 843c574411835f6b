#pragma once

#include <span>
#include <utility>
#include <vector>

#include "partition/lower/program.h"
#include "partition/simulate/grouped.h"
#include "partition/simulate/seconds.h"
#include "partition/simulate/transfers.h"

namespace smex {

/// The instructions and transfers of a list as nodes, and which follow which: what reads a tile
/// comes after what makes it, and with `in_order` what a worker computes after what stands before
/// it in its list.
class Dependences {
 public:
  Dependences(const Program& program, const InstrSeconds& seconds, const Transfers& transfers,
              bool backward, bool in_order);

  int size() const { return static_cast<int>(seconds_.size()); }
  int node_of(int worker, int position) const { return first_[worker] + position; }
  int node_of_transfer(int transfer) const { return first_transfer_ + transfer; }
  /// Of a transfer with its latency.
  double seconds(int node) const { return seconds_[node]; }
  std::span<const int> followers(int node) const { return followers_.of(node); }
  /// Each after what it follows. Throws InternalError where nodes wait for each other in a circle.
  std::vector<int> order() const;

  struct Paths {
    std::vector<double> heads, tails;  ///< by node: what comes before and after it at least
    double longest = 0;                ///< of all chains
  };
  Paths paths() const;

 private:
  class Links;

  std::vector<int> first_;  ///< node of each worker's first instruction; transfers follow
  int first_transfer_ = 0;
  std::vector<double> seconds_;  ///< by node
  Grouped followers_;
  std::vector<int> num_before_;
};

}  // namespace smex
