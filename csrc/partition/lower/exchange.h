#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partition/lower/collective.h"
#include "partition/lower/orders.h"
#include "partition/lower/program.h"

namespace smex {

/// What one process sends another at once.
struct Packet {
  int relayout = -1;  ///< FetchInstr::relayout
  int from = 0;       ///< processes; -1: a sum of what several have sent
  int to = 0;
  int64_t bytes = 0;
  std::vector<Parcel> parcels;
};

/// All packets of a relayout from one process to another.
struct Message {
  int relayout = -1;
  int from = 0, to = 0;  ///< processes

  bool operator==(const Message&) const = default;
};

/// One round of what the fetches of one relayout bring from other processes: at most one packet for
/// each ordered pair of them, by sender and then by receiver.
struct Exchange {
  int relayout = -1;  ///< FetchInstr::relayout
  ValueId value = kNoValue;
  std::string kind;  ///< of the fetches
  std::vector<Packet> packets;
  // Where a collective carries it:
  std::optional<CollectiveKind> collective;
  std::vector<std::vector<int>> groups;  ///< Collective::groups
  std::string dtype;                     ///< of what is added up
  /// Of a collective that adds up, for each process what it gets: boxes of slots that are fetched.
  /// A packet goes to the sender itself, too.
  std::vector<Packet> sums;
};

/// The exchanges of a forward and of a backward list, in the order in which every process starts
/// them.
struct Exchanges {
  std::vector<Exchange> forward;
  std::vector<Exchange> backward;
};

/// The boxes, cut along the outermost dimensions of `box`, in which it is sent where packets hold
/// at most so many bytes.
std::vector<Region> pieces_of(const Region& box, int itemsize, int64_t packet_bytes);

/// Lists what the processes of a program send each other, worker `w` being one of process
/// `ranks[w]`. A process gets each box once, however many of its workers fetch it. Packets hold at
/// most `packet_bytes`, larger relayouts go in several rounds. `collectives` are those of
/// `find_collectives` that are to be used. Throws InternalError where a fetch from another process
/// belongs to no relayout, or fetches of one worker are out of order.
Exchanges list_exchanges(const Program& program, const std::vector<int>& ranks,
                         int64_t packet_bytes, const std::vector<Collective>& collectives = {});

/// Bytes that processes send each other in one run.
int64_t exchanged_bytes(const std::vector<Exchange>& exchanges);

/// A digest of the whole program, equal on processes that have made the same one.
uint64_t digest(const Program& program);

}  // namespace smex
