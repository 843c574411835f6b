#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "partition/lower/program.h"
#include "runtime/arguments.h"
#include "runtime/elements.h"
#include "runtime/processes/traffic.h"

namespace smex::runtime {

/// A ComputeInstr with its operator looked up and its arguments boxed.
struct ComputeStep {
  const ComputeInstr* instr = nullptr;
  c10::OperatorHandle op;
  Arguments arguments;
  Region crop;         ///< rank 0: keep the whole output
  bool dense = false;  ///< the kernel reads its operands as if they were contiguous
  // Of a result that lies inside of another tile:
  std::optional<c10::OperatorHandle> writer;               ///< writes it where it lies
  c10::ScalarType inside_of = c10::ScalarType::Undefined;  ///< the tile's
};

/// One box to copy, or to combine into what earlier copies wrote.
struct Copy {
  int worker = 0;
  Slot slot = kNoSlot;
  Region source;
  Region dest;
  bool combine = false;
  /// Of a tile of another process the incoming packet that it comes in, where it lies there, and
  /// the shape of what lies there; `source` is inside of that. So of a sum that comes in packets.
  int packet = -1;
  bool is_last = false;  ///< of those of its fetch that read the packet
  int64_t offset = 0;
  Shape shape;
};

/// A peer's slot that this fetch reads, and the last copy that does.
struct RemoteRead {
  int worker = 0;
  Slot slot = kNoSlot;
};

/// A FetchInstr whose overlapping parts are cut so that each copy only overwrites or only combines.
struct FetchStep {
  const FetchInstr* instr = nullptr;
  c10::ScalarType dtype = c10::ScalarType::Undefined;  ///< Undefined: that of the first part
  std::vector<Copy> copies;
  std::vector<Region> uncovered;  ///< disjoint boxes that hold `fill`
  std::vector<RemoteRead> reads;  ///< distinct slots of other workers of this process
  int64_t remote_elements = 0;
  int kind = 0;  ///< position in Steps::kinds
};

struct FreeStep {
  Slot slot = kNoSlot;
};

struct MoveStep {
  const MoveInstr* instr = nullptr;
};

using Step = std::variant<ComputeStep, FetchStep, FreeStep, MoveStep>;

struct WorkerSteps {
  std::vector<Step> forward;
  std::vector<Step> backward;
  /// Per slot, the references that must go before its memory does: the owner's, one for each fetch
  /// of another worker, and one that is never dropped for a program output.
  std::vector<int> references;
  std::vector<bool> read_remotely;
  /// By slot, of the forward [0] and backward [1] list, the outgoing packets that have a box of it.
  std::array<std::unordered_map<Slot, std::vector<int>>, 2> packets;
  std::vector<int> outputs;  ///< per slot, the program outputs that it is
  /// An earlier worker on the same processors that runs the same steps in the same slots, both
  /// without tiles of others: given the same tiles it makes the same ones. -1: there is none.
  int twin = -1;
};

/// A Program made ready to run: the parts of every instruction that do not change from run to run.
struct Steps {
  std::vector<WorkerSteps> workers;
  ListTensors lists;               ///< of all regions that are not boxes
  std::vector<std::string> kinds;  ///< the distinct FetchInstr::kind, in order of first appearance
  // Of a program that runs in several processes, for the forward [0] and backward [1] list:
  std::array<std::shared_ptr<const Traffic>, 2> traffic;
  std::array<std::map<std::string, Volume>, 2> volumes;  ///< of all processes
  std::array<std::vector<int>, 2> packet_sources;  ///< by outgoing packet: slots that it is made of
  std::array<std::vector<int>, 2> packet_readers;  ///< by incoming packet: fetches that read it
};

/// Where workers run: the process of each, which of these is this one, and which share a host.
struct Processes {
  int rank = 0;
  std::vector<int> ranks;  ///< by worker; empty: one process runs all
  std::vector<int> hosts;  ///< by process, see CommunicatorOptions
  int64_t packet_bytes = 1 << 19;
  std::vector<Collective> collectives;           ///< that are used, see `find_collectives`
  std::array<std::vector<Message>, 2> messages;  ///< by list their order, see `simulate`

  bool is_here(int worker) const { return ranks.empty() || ranks[worker] == rank; }
};

/// Resolves operators, converts arguments and checks the program: every slot exists and is written
/// at most once, boxes agree, `remote_reads` (when given) counts the reading fetches. `aten::view`
/// and `aten::_unsafe_view` become `aten::reshape`, because a tile may be strided where the tensor
/// was not. Only this process's workers get steps. The result refers to `program`, which must
/// outlive it. Throws InternalError that names the instruction.
Steps prepare_steps(const Program& program, const std::vector<c10::Device>& devices,
                    const Processes& processes = {});

/// "aten::mm (op 3, slot 5 'y') on worker 0".
std::string describe(const Program& program, int worker, const Step& step);

}  // namespace smex::runtime
