#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <variant>
#include <vector>

#include "partition/lower/program.h"
#include "runtime/arguments.h"

namespace smex::runtime {

/// A ComputeInstr with its operator looked up and its arguments boxed.
struct ComputeStep {
  const ComputeInstr* instr = nullptr;
  c10::OperatorHandle op;
  Arguments arguments;
  Region crop;         ///< rank 0: keep the whole output
  bool dense = false;  ///< the kernel reads its operands as if they were contiguous
};

/// One box to copy, or to combine into what earlier copies wrote.
struct Copy {
  int worker = 0;
  Slot slot = kNoSlot;
  Region source;
  Region dest;
  bool combine = false;
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
  std::vector<RemoteRead> reads;  ///< distinct slots of other workers
  int64_t remote_elements = 0;
  int kind = 0;  ///< position in Steps::kinds
};

struct FreeStep {
  Slot slot = kNoSlot;
};

using Step = std::variant<ComputeStep, FetchStep, FreeStep>;

struct WorkerSteps {
  std::vector<Step> forward;
  std::vector<Step> backward;
  /// Per slot, the references that must go before its memory does: the owner's, one for each fetch
  /// of another worker, and one that is never dropped for a program output.
  std::vector<int> references;
  std::vector<bool> read_remotely;
  std::vector<int> outputs;  ///< per slot, the program outputs that it is
  /// An earlier worker on the same processors that runs the same steps in the same slots, both
  /// without tiles of others: given the same tiles it makes the same ones. -1: there is none.
  int twin = -1;
};

/// A Program made ready to run: the parts of every instruction that do not change from run to run.
struct Steps {
  std::vector<WorkerSteps> workers;
  std::vector<std::string> kinds;  ///< the distinct FetchInstr::kind, in order of first appearance
};

/// Resolves operators, converts arguments and checks the program: every slot exists and is written
/// at most once, boxes agree, `remote_reads` (when given) counts the reading fetches. `aten::view`
/// and `aten::_unsafe_view` become `aten::reshape`, because a tile may be strided where the tensor
/// was not. The result refers to `program`, which must outlive it. Throws InternalError that names
/// the instruction.
Steps prepare_steps(const Program& program, const std::vector<c10::Device>& devices);

/// "aten::mm (op 3, slot 5 'y') on worker 0".
std::string describe(const Program& program, int worker, const Step& step);

}  // namespace smex::runtime
