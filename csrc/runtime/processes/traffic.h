#pragma once

#include <map>
#include <string>
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
  /// By process elsewhere the packets to it, and of all of them those from there, as they go.
  std::vector<std::vector<int>> messages_to;
  std::vector<int> messages;
  std::vector<int> turn;  ///< by outgoing packet, of messages: the lower ones go first
  /// What goes through collectives of the process group, exchange by exchange: those of a program
  /// that this process is in, or an all-to-all, in which each process takes part.
  struct Round {
    CollectiveKind kind = CollectiveKind::kAllToAll;
    std::vector<int> group;          ///< the processes that take part, ascending
    std::string dtype;               ///< of what is added up
    std::vector<int> outgoing;       ///< of an all_gather and all_reduce one, for all
    std::vector<int> incoming;       ///< by the other process; of sums one
    int64_t sent = 0, received = 0;  ///< bytes of these
  };
  std::vector<Round> rounds;
  std::vector<int> place;  ///< by incoming packet that among `messages`, or its round
};

/// How exchanges are carried.
struct Carriers {
  std::vector<int> hosts;  ///< processes of equal ones share memory; -1 shares it with nobody
  bool by_rounds = false;  ///< what remains goes as messages, or through collectives
  /// Which messages go before others; without it they go in the order of exchanges.
  std::vector<Message> order;
};

Traffic traffic_of(const std::vector<Exchange>& exchanges, int rank, const Carriers& carriers);

/// How much goes one way between all processes.
struct Volume {
  int64_t relayouts = 0;  ///< that go so, also in part
  int64_t packets = 0;    ///< or calls of a collective by its group
  int64_t bytes = 0;
};

/// By way, in words: "shared memory", "messages", or a collective's name.
std::map<std::string, Volume> volumes_of(const std::vector<Exchange>& exchanges,
                                         const Carriers& carriers);

}  // namespace smex::runtime
