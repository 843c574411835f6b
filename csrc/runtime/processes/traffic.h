#pragma once

#include <vector>

#include "partition/lower/exchange.h"

namespace smex::runtime {

/// What one process sends and receives while a list runs, by how it goes.
struct Traffic {
  std::vector<Packet> outgoing, incoming;  ///< in the order of exchanges
  /// By process of this host the packets to and from it.
  std::vector<std::vector<int>> shared_to, shared_from;
  /// What goes through the process group, exchange by exchange; of all processes, so that each
  /// takes part in all.
  struct Round {
    std::vector<int> outgoing, incoming;  ///< by the other process
    int64_t sent = 0, received = 0;       ///< bytes
  };
  std::vector<Round> rounds;
  std::vector<int> round_of;  ///< by incoming packet; -1: through shared memory
};

/// Divides exchanges. Processes of equal `hosts` share memory; -1 shares it with nobody.
Traffic traffic_of(const std::vector<Exchange>& exchanges, int rank, const std::vector<int>& hosts);

}  // namespace smex::runtime
