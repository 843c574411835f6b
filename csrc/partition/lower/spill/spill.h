#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "partition/lower/program.h"
#include "partition/lower/spill/schedule.h"

namespace smex {

struct SpillOptions {
  int64_t capacity = 0;  ///< bytes of each worker's device
  SpillPolicy policy = SpillPolicy::kDp;
  /// Operators whose outputs share the memory of their first operand.
  std::set<std::string> views;
};

/// What passes between a worker's device and the host in both lists.
struct SpillTraffic {
  int64_t to_host = 0, to_device = 0;  ///< bytes
  int64_t least = 0;                   ///< of both, below which no schedule of the list is
};

/// The instruction that takes the most memory on a device: its operands and its results.
struct LargestInstr {
  int64_t bytes = 0;
  int worker = 0;
  std::string text;  ///< "aten::mm (model.py:12)"
};

LargestInstr largest_instr(const Program& program, const std::set<std::string>& views);

/// Lets every worker run in `capacity` bytes of device memory, the rest being on the host (ROC §5):
/// adds the transfers of a schedule to the lists, which keep their order.
///
/// * What counts are tiles: parameters, buffers, inputs, constants, activations and gradients; not
///   what kernels take for themselves.
/// * A call begins and ends on the host. Inputs of the program, the model's state among them, lie
///   there and come when an instruction needs them; what the program returns is written there as
///   soon as it is made, once. Between the forward and the backward list tiles stay where they are.
/// * All operands and results of an instruction are on the device while it runs. Instructions that
///   only make views run where the tile lies.
/// * Tiles that share memory (views) come and go together, as one block.
/// * What is on the host stays valid there, because programs write every slot once and nothing in
///   place: a tile that came from there, or has been written there, leaves for nothing. The state
///   is changed between calls only.
/// * Tiles that other workers fetch are written to the host when they are made, where these read
///   them: how long they do does not matter to the device.
///
/// Fetches are waited for at once. Returns what each worker moves. Throws UserError where an
/// instruction needs more than the capacity, see `largest_instr`.
std::vector<SpillTraffic> spill(Program& program, const SpillOptions& options);

/// Lets inputs that are the same tensor be one: of each group of values the first one's tile is
/// read instead of the others' where they are of the same region. Throws UserError where a value is
/// no input.
void merge_inputs(Program& program, const std::vector<std::vector<ValueId>>& groups);

/// The problem of one worker: its steps are the instructions that need anything on the device.
SpillProblem spill_problem(const Program& program, int worker, const SpillOptions& options);

/// Bytes that the lists move between devices and the host: to the host, and to devices.
SpillTraffic spilled_bytes(const Program& program, bool forward, bool backward);

}  // namespace smex
