#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partition/lower/program.h"

namespace smex {

/// A box of a worker's slot on its way to another process, contiguous and in row-major order.
struct Parcel {
  int worker = 0;
  Slot slot = kNoSlot;
  Region box;          ///< inside the slot
  int64_t offset = 0;  ///< in bytes, from the packet's begin
};

using Order = std::vector<Parcel>;  ///< what one process is to send another, each box once

/// What the processes are to send each other for one relayout.
struct Orders {
  struct Fetch {
    int worker = 0;
    const FetchInstr* instr = nullptr;
  };
  std::map<std::pair<int, int>, Order> by_pair;  ///< of sender and receiver
  std::vector<Fetch> fetches;                    ///< of all processes, by worker
  const FetchInstr* first = nullptr;             ///< of those that bring something
  int itemsize = 1;
};

/// Adds a box, unless it is there or empty.
void add_box(Order& order, const CopyPart& part);

/// A part of a fetch that comes from another process.
struct SentPart {
  int worker = 0, position = 0;  ///< of the fetch: whose it is, and where in its list
  const FetchInstr* fetch = nullptr;
  const CopyPart* part = nullptr;
};

/// Those of a list, by worker and then by position; worker `w` is one of process `ranks[w]`. Throws
/// InternalError where a fetch from another process belongs to no relayout, or fetches of one
/// worker are out of order.
std::vector<SentPart> list_sent_parts(const Program& program, const std::vector<int>& ranks,
                                      std::vector<Instr> WorkerProgram::* list);

/// The relayouts of a list of which processes send each other something, by number. Throws like
/// `list_sent_parts`.
std::map<int, Orders> list_orders(const Program& program, const std::vector<int>& ranks,
                                  std::vector<Instr> WorkerProgram::* list);

}  // namespace smex
