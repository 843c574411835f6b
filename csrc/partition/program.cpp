#include "partition/program.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace smex {

namespace {

void print_compute(std::ostream& out, const ComputeInstr& compute) {
  for (size_t o = 0; o < compute.outputs.size(); ++o) {
    out << (o ? ", " : "") << compute.outputs[o];
  }
  out << " = " << compute.target << "  # op " << compute.op;
}

void print_fetch(std::ostream& out, const FetchInstr& fetch) {
  out << fetch.dest << " = " << fetch.kind << '(';
  for (size_t p = 0; p < fetch.parts.size(); ++p) {
    const CopyPart& part = fetch.parts[p];
    out << (p ? ", " : "") << part.worker << ':' << part.slot << Region{part.source}.str();
  }
  out << ')';
}

void print(std::ostream& out, const std::vector<Instr>& instrs) {
  for (const Instr& instr : instrs) {
    out << "  ";
    if (instr.kind == InstrKind::kCompute) print_compute(out, instr.compute);
    if (instr.kind == InstrKind::kFetch) print_fetch(out, instr.fetch);
    if (instr.kind == InstrKind::kFree) out << "free " << instr.free.slot;
    out << '\n';
  }
}

}  // namespace

namespace {

/// The live storages of one worker while its instructions are walked.
class Memory {
 public:
  Memory(const WorkerProgram& program, const std::set<std::string>& view_targets)
      : program_(program), view_targets_(view_targets), storage_(program.num_slots, -1) {}

  void allocate(Slot slot, const Shape& shape) {
    storage_[slot] = static_cast<int>(bytes_.size());
    bytes_.push_back(Region::whole(shape).numel() * program_.slot_itemsizes[slot]);
    references_.push_back(1);
    live_ += bytes_.back();
    peak_ = std::max(peak_, live_);
  }

  void walk(const std::vector<Instr>& instrs, const std::set<Slot>& kept) {
    for (const Instr& instr : instrs) {
      if (instr.kind == InstrKind::kFree) {
        if (!kept.count(instr.free.slot)) release(instr.free.slot);
      } else if (instr.kind == InstrKind::kFetch) {
        const FetchInstr& fetch = instr.fetch;
        fetch.view ? alias(fetch.dest, fetch.parts.front().slot)
                   : allocate(fetch.dest, fetch.shape);
      } else {
        compute(instr.compute);
      }
    }
  }

  int64_t peak() const { return peak_; }

 private:
  void compute(const ComputeInstr& compute) {
    const ValueRef* first = nullptr;
    for (const Attr& arg : compute.args) {
      if (!first) first = std::get_if<ValueRef>(&arg);
    }
    const bool view = first && view_targets_.count(compute.target);
    for (size_t o = 0; o < compute.outputs.size(); ++o) {
      if (compute.outputs[o] == kNoSlot) continue;
      view ? alias(compute.outputs[o], first->id)
           : allocate(compute.outputs[o],
                      compute.crop.empty() ? compute.output_shapes[o] : compute.computed);
    }
  }

  void alias(Slot slot, Slot base) {
    storage_[slot] = storage_[base];
    ++references_[storage_[slot]];
  }

  void release(Slot slot) {
    if (--references_[storage_[slot]] == 0) live_ -= bytes_[storage_[slot]];
  }

  const WorkerProgram& program_;
  const std::set<std::string>& view_targets_;
  std::vector<int> storage_;  ///< per slot
  std::vector<int64_t> bytes_;
  std::vector<int> references_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

}  // namespace

std::vector<int64_t> peak_bytes(const Program& program, const std::set<std::string>& view_targets) {
  std::vector<int64_t> peaks;
  for (int w = 0; w < program.num_workers; ++w) {
    const WorkerProgram& worker = program.workers[w];
    Memory memory(worker, view_targets);
    std::set<Slot> kept;
    for (const Binding& output : program.outputs) {
      if (!output.slots.empty()) kept.insert(output.slots[w]);
    }
    for (const Binding& input : program.inputs) {
      if (input.slots[w] != kNoSlot) memory.allocate(input.slots[w], input.regions[w].shape());
    }
    memory.walk(worker.forward, kept);
    memory.walk(worker.backward, kept);
    peaks.push_back(memory.peak());
  }
  return peaks;
}

std::string Program::str() const {
  std::ostringstream out;
  for (size_t w = 0; w < workers.size(); ++w) {
    out << "worker " << w << " forward:\n";
    print(out, workers[w].forward);
    out << "worker " << w << " backward:\n";
    print(out, workers[w].backward);
  }
  return out.str();
}

int64_t moved_bytes(const Program& program, bool forward, bool backward) {
  static const std::map<std::string, int> kItemSizes{
      {"float64", 8}, {"float32", 4}, {"float16", 2},   {"bfloat16", 2},
      {"int64", 8},   {"int32", 4},   {"int16", 2},     {"int8", 1},
      {"uint8", 1},   {"bool", 1},    {"complex64", 8}, {"complex128", 16}};
  int64_t bytes = 0;
  auto count = [&](int worker, const std::vector<Instr>& instrs) {
    for (const Instr& instr : instrs) {
      if (instr.kind != InstrKind::kFetch) continue;
      for (const CopyPart& part : instr.fetch.parts) {
        if (part.worker == worker) continue;
        bytes += Region{part.dest}.numel() * kItemSizes.at(instr.fetch.dtype);
      }
    }
  };
  for (int w = 0; w < program.num_workers; ++w) {
    if (forward) count(w, program.workers[w].forward);
    if (backward) count(w, program.workers[w].backward);
  }
  return bytes;
}

}  // namespace smex
