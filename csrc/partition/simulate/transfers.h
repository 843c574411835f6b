#pragma once

#include <utility>
#include <vector>

#include "partition/lower/exchange.h"
#include "partition/lower/program.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"

namespace smex {

/// What one process sends another of a relayout, and what that takes.
struct Transfer {
  Message message;
  std::vector<std::pair<int, Slot>> sources;  ///< tiles, by worker
  std::vector<std::pair<int, int>> readers;   ///< fetches: workers, and positions in their lists
  double bytes = 0;
  double seconds = 0;  ///< on its way
  double latency = 0;
  double charged = 0;  ///< of the seconds the receiver's own, if it computes meanwhile
  /// What it occupies meanwhile: the receiver, a number below that of processes; between nodes, of
  /// which each has a port, the receiving node's way in and the other's way out.
  std::vector<int> ports;
};

/// Lists what processes send each other in a list; worker `w` is one of process `ranks[w]`. It goes
/// over the machine's link between the two. Throws like `list_orders`.
std::vector<Transfer> list_transfers(const Program& program, const Mesh& mesh,
                                     const Machine& machine, const std::vector<int>& ranks,
                                     bool backward);

}  // namespace smex
