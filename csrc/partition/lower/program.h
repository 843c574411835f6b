#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "tdl/spec.h"

namespace smex {

using Slot = int32_t;  ///< a worker's local tensor; numbered per worker
inline constexpr Slot kNoSlot = -1;

/// Where in a tile that is still to be completed a result lies; see in_place.h.
struct Inside {
  Slot dest = kNoSlot;  ///< kNoSlot: it has memory of its own
  Shape shape;          ///< of the tile
  std::string dtype;
  int64_t offset = 0;  ///< elements of the tile before it
  bool operator==(const Inside&) const = default;
};

/// Runs `target` on local slots. ValueRef ids inside `args` are slots of this worker.
struct ComputeInstr {
  OpId op = -1;        ///< for messages and traces; of a fused call the last one it stands for
  std::string source;  ///< the user's line, "model.py:12", and module; for messages
  std::string target;
  std::string what;  ///< the operators of the calls that one of smex::pointwise is made of
  std::vector<Attr> args;
  std::vector<Slot> outputs;  ///< kNoSlot: dropped
  /// Crops the single output to this box (coordinates of the computed tensor) when not
  /// empty-ranked.
  std::vector<Interval> crop;
  Shape computed;       ///< the shape before the crop
  bool copies = false;  ///< a reshape that is no view of its tile
  bool dense = false;   ///< its first output is contiguous
  Inside inside;        ///< what its only output is a part of
  // For predictions, of its tile:
  double operations = 0;                    ///< arithmetic
  double gathered = 0;                      ///< bytes that it reads of rows one by one
  std::shared_ptr<const std::string> kind;  ///< see price/call_cost.h; null: its target
  int due = -1;                             ///< as a fetch's, of a view of what a late fetch brings
  bool anywhere = false;                    ///< a view, also of a tile that is on the host
  std::vector<Shape> output_shapes;  ///< expected, after the crop; a mismatch is an internal error
};

/// The operator, and in brackets those it is made of: "smex::pointwise[aten::mul, aten::tanh]".
std::string operator_name(const ComputeInstr& compute);

/// "op 3", or "added" for a call that stands for no op of the graph.
std::string op_label(const ComputeInstr& compute);

/// One contribution to a fetched tensor: a part of a peer's slot into one of the destination.
struct CopyPart {
  int worker = 0;
  Slot slot = kNoSlot;
  Region source;          ///< inside the peer's slot
  Region dest;            ///< inside the destination slot
  bool in_place = false;  ///< it is there before the fetch
};

/// Assembles `dest` from parts held by this and other workers (Tofu's MultiFetch).
/// Without `reduce` parts do not overlap; with it, overlapping parts are combined in list order.
/// Elements that no part covers hold `fill`. A fetch of one part that is local and needs no padding
/// is a view.
struct FetchInstr {
  ValueId value = kNoValue;
  Slot dest = kNoSlot;
  Shape shape;
  std::string dtype;
  std::vector<CopyPart> parts;
  bool reducing = false;
  tdl::ReduceKind reduce = tdl::ReduceKind::kSum;
  double fill = 0;
  bool view = false;        ///< dest aliases the local part's slot
  bool begun = false;       ///< dest is made by the call whose result is inside of it
  bool shape_only = false;  ///< the content is never read
  std::string kind;         ///< "fetch", "halo", "reduce_scatter", "all_gather" …, for statistics
  /// The workers' fetches of one number bring a value from one layout to another; numbers ascend in
  /// the order of instructions. -1: by itself.
  int relayout = -1;
  /// It begins here, and goes on with what has come while later instructions run; before the one at
  /// this position of its list it is waited for, at the latest (overlap.h). -1: at once.
  int due = -1;
};

/// Drops this worker's reference; the memory is released once remote readers are done.
struct FreeInstr {
  Slot slot = kNoSlot;
};

/// Moves the memory that some slots of a worker share between its device and the host (spill.h).
struct MoveInstr {
  enum class Kind {
    kWrite,    ///< the host gets a copy, where it has none yet; the device keeps its own
    kDrop,     ///< the device lets go; what has a copy on the host is there from now on
    kRestore,  ///< the device gets a copy of what the host keeps
  };
  Kind kind = Kind::kWrite;
  std::vector<Slot> slots;  ///< the first one is made, or given, before the others
  int64_t bytes = 0;        ///< that are copied
};

/// "spill", "drop" or "restore".
const char* name_of(MoveInstr::Kind kind);

using Instr = std::variant<ComputeInstr, FetchInstr, FreeInstr, MoveInstr>;

/// Before which instruction of its list one is waited for at the latest; -1: it runs at once.
int due_of(const Instr& instr);

/// What a worker copies of its own tiles in a fetch, as a call that could be measured: "fetch", or
/// "fetch of rows" where these are listed. Elements, of each the source and the destination, and
/// in how many pieces these lie in the destination.
struct OwnCopy {
  const char* kind = "fetch";
  double elements = 0;
  double pieces = 0;
};
OwnCopy own_copy(const FetchInstr& fetch, int worker);

/// Whether a fetch brings tiles of other workers.
bool reads_others(const FetchInstr& fetch, int worker);

/// Calls `visit` for each slot that the instruction makes.
template <typename Visit>
void for_each_made(const Instr& instr, const Visit& visit) {
  if (const auto* fetch = std::get_if<FetchInstr>(&instr)) visit(fetch->dest);
  const auto* const compute = std::get_if<ComputeInstr>(&instr);
  if (!compute) return;
  for (const Slot slot : compute->outputs) {
    if (slot != kNoSlot) visit(slot);
  }
}

struct WorkerProgram {
  int num_slots = 0;
  std::vector<int> remote_reads;        ///< per slot: how many fetches of other workers read it
  std::vector<std::string> slot_names;  ///< per slot: the value's name
  std::vector<Instr> forward;
  std::vector<Instr> backward;
  std::vector<int> slot_itemsizes;  ///< per slot: bytes of an element, for predictions

  const std::vector<Instr>& list(bool is_backward) const {
    return is_backward ? backward : forward;
  }
};

/// Where a graph input or output lives: per worker its slot (kNoSlot: holds none) and region.
struct Binding {
  ValueId value = kNoValue;
  std::vector<Slot> slots;
  std::vector<Region> regions;
  /// By worker the integers of a vector that the program brings along; none where the caller gives
  /// the tiles.
  std::vector<std::shared_ptr<const std::vector<int64_t>>> contents = {};
};

/// What runs: one instruction list per worker, split where the tangents enter.
struct Program {
  int num_workers = 1;
  std::vector<WorkerProgram> workers;
  /// Parameters, buffers, inputs, constants, tangents, in graph order; then what the program brings
  /// along.
  std::vector<Binding> inputs;
  std::vector<Binding> outputs;  ///< in the order of Graph::outputs()
  /// Bytes that a worker's device has, where tiles may be on the host: inputs begin and outputs end
  /// there. 0: all tiles are on the devices.
  int64_t device_memory = 0;
  bool spills() const { return device_memory > 0; }
  /// Calls that add up what edges bring by the peers that it comes from (sums_by_peer.h).
  int sums_by_peer = 0;
  /// How many of the inputs the caller gives: the first ones.
  size_t num_given() const;
  std::string str() const;
};

/// Bytes that the program moves between workers: those of the copy parts that lie on another worker
/// than the one that fetches. Throws UserError when a destination's item size is not given.
int64_t moved_bytes(const Program& program, bool forward, bool backward);

/// The instruction after which one at `position` of a list, of this `due`, has surely run.
int finished(int due, int position);

}  // namespace smex
