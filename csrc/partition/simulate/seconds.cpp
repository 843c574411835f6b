#include "partition/simulate/seconds.h"

#include <algorithm>

#include "ir/graph.h"

namespace smex {
namespace {

/// Bytes a second between a device and the host: sixteen lanes of PCIe 4, of which 80 % are data.
constexpr double kHostBandwidth = 25e9;

/// Slots' sizes as far as the instructions tell, and with them what instructions take.
class Prediction {
 public:
  Prediction(const Program& program, int worker, const Device& device,
             const std::set<std::string>& views)
      : program_(program.workers[worker]),
        worker_(worker),
        device_(device),
        views_(views),
        bytes_(program_.num_slots, 0) {
    for (const Binding& input : program.inputs) {
      const Slot slot = input.slots.at(worker);
      if (slot == kNoSlot) continue;
      const auto regions = static_cast<int>(input.regions.size());
      if (worker < regions) set(slot, input.regions[worker].shape());
    }
  }

  double seconds(const Instr& instr) {
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) return of_fetch(*fetch);
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) return of_compute(*compute);
    if (const auto* move = std::get_if<MoveInstr>(&instr)) return of_move(*move);
    return 0;
  }

 private:
  void set(Slot slot, const Shape& shape) {
    bytes_[slot] =
        static_cast<double>(Region::whole(shape).numel() * program_.slot_itemsizes.at(slot));
  }

  double of_fetch(const FetchInstr& fetch) {
    set(fetch.dest, fetch.shape);
    const OwnCopy own = own_copy(fetch, worker_);
    if (own.elements == 0) return 0;
    const int itemsize = program_.slot_itemsizes.at(fetch.dest);
    CallWork work;
    work.operations = own.pieces;
    for (int end = 0; end < 2; ++end) work.add_operand(own.elements * itemsize);  // read, written
    work.add_memory(bytes_[fetch.dest], itemsize);
    const CallCost* known = find_cost(device_.calls, own.kind, "fetch", itemsize);
    return known ? known->seconds(work) : work.bytes / device_.memory_bandwidth;
  }

  double of_move(const MoveInstr& move) const {
    return static_cast<double>(move.bytes) / std::min(kHostBandwidth, device_.memory_bandwidth / 2);
  }

  double of_compute(const ComputeInstr& compute) {
    CallWork work;
    work.operations = compute.operations;
    work.gathered = compute.gathered;
    for (const ValueId slot : tensor_operands(compute.args)) work.add_operand(bytes_[slot]);
    for (size_t o = 0; o < compute.outputs.size(); ++o) {
      const Slot slot = compute.outputs[o];
      if (slot == kNoSlot) continue;
      if (o < compute.output_shapes.size()) set(slot, compute.output_shapes[o]);
      work.add_result(bytes_[slot], program_.slot_itemsizes.at(slot));
    }
    if (views_.count(compute.target) && !compute.copies) return 0;
    return device_.seconds(compute.kind ? *compute.kind : compute.target, compute.target, work);
  }

  const WorkerProgram& program_;
  const int worker_;
  const Device& device_;
  const std::set<std::string>& views_;
  std::vector<double> bytes_;  ///< by slot
};

}  // namespace

InstrSeconds predicted_seconds(const Program& program, const Machine& machine,
                               const std::set<std::string>& views) {
  InstrSeconds seconds(program.num_workers);
  for (int w = 0; w < program.num_workers; ++w) {
    Prediction prediction(program, w, machine.of(w), views);
    for (const bool backward : {false, true}) {
      for (const Instr& instr : program.workers[w].list(backward)) {
        seconds[w][backward].push_back(prediction.seconds(instr));
      }
    }
  }
  return seconds;
}

}  // namespace smex
