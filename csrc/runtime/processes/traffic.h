#pragma once

#include <vector>

#include "partition/lower/exchange.h"

namespace smex::runtime {

/// What one process sends and receives while a list runs, by how it goes.
struct Traffic {
  std::vector<Packet> outgoing, incoming;  ///< in the order of exchanges
  enum class Way { kShared, kMessage, kRound };
  std::vector<Way> way;  ///< by incoming packet
  /// By process of this host the packets to and from it.
  std::vector<std::vector<int>> shared_to, shared_from;
  /// By process elsewhere the packets to it, and of all of them those from there.
  std::vector<std::vector<int>> messages_to;
  std::vector<int> messages;
  /// What goes through collectives of the process group, exchange by exchange; of all processes, so
  /// that each takes part in all.
  struct Round {
    std::vector<int> outgoing, incoming;  ///< by the other process
    int64_t sent = 0, received = 0;       ///< bytes
  };
  std::vector<Round> rounds;
  std::vector<int> place;  ///< by incoming packet that among `messages`, or its round
};

/// Divides exchanges. Processes of equal `hosts` share memory; -1 shares it with nobody. What
/// remains goes as messages, or with `by_rounds` through collectives.
Traffic traffic_of(const std::vector<Exchange>& exchanges, int rank, const std::vector<int>& hosts,
                   bool by_rounds);

}  // namespace smex::runtime
