#include "partition/lower/program.h"

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "ir/error.h"

namespace smex {

namespace {

void print_compute(std::ostream& out, const ComputeInstr& compute) {
  for (size_t o = 0; o < compute.outputs.size(); ++o) {
    out << (o ? ", " : "") << compute.outputs[o];
  }
  out << " = " << operator_name(compute) << "  # " << op_label(compute);
}

void print_fetch(std::ostream& out, const FetchInstr& fetch) {
  out << fetch.dest << " = " << fetch.kind << '(';
  for (size_t p = 0; p < fetch.parts.size(); ++p) {
    const CopyPart& part = fetch.parts[p];
    out << (p ? ", " : "") << part.worker << ':' << part.slot << part.source.str();
  }
  out << ')';
}

void print_move(std::ostream& out, const MoveInstr& move) {
  out << name_of(move.kind);
  for (const Slot slot : move.slots) out << ' ' << slot;
  if (move.bytes > 0) out << "  # " << move.bytes << " bytes";
}

void print(std::ostream& out, const std::vector<Instr>& instrs) {
  for (const Instr& instr : instrs) {
    out << "  ";
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) print_compute(out, *compute);
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) print_fetch(out, *fetch);
    if (const auto* free = std::get_if<FreeInstr>(&instr)) out << "free " << free->slot;
    if (const auto* move = std::get_if<MoveInstr>(&instr)) print_move(out, *move);
    out << '\n';
  }
}

}  // namespace

namespace {

/// Bytes of an element of a slot; `what` asks.
int itemsize(const WorkerProgram& program, Slot slot, const char* what) {
  if (slot < 0 || slot >= static_cast<Slot>(program.slot_itemsizes.size())) {
    throw UserError(std::string(what) + ": expected slot_itemsizes for slot " +
                    std::to_string(slot) + ", found " +
                    std::to_string(program.slot_itemsizes.size()) + " of them");
  }
  return program.slot_itemsizes[slot];
}

template <typename Visit>
void for_each_instr(const WorkerProgram& worker, const Visit& visit) {
  int position = 0;
  for (const auto* instrs : {&worker.forward, &worker.backward}) {
    for (const Instr& instr : *instrs) visit(position++, instr);
  }
}

constexpr int kNever = std::numeric_limits<int>::max();

/// Calls `visit(worker, begun, finished, part)` for each part of another worker that a fetch reads;
/// positions count through both lists.
template <typename Visit>
void visit_remote_parts(const Program& program, const Visit& visit) {
  for (int w = 0; w < program.num_workers; ++w) {
    const auto forward = static_cast<int>(program.workers[w].forward.size());
    for_each_instr(program.workers[w], [&](int position, const Instr& instr) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) return;
      const int list = position < forward ? 0 : forward;
      const int end = list + finished(fetch->due, position - list);
      for (const CopyPart& part : fetch->parts) {
        if (part.worker != w) visit(w, position, end, part);
      }
    });
  }
}

/// The live storages of one worker while its instructions are walked.
class Memory {
 public:
  Memory(const Program& program, int worker, const Reading& reading,
         const std::set<std::string>& view_targets)
      : program_(program.workers[worker]),
        worker_(worker),
        reading_(reading),
        view_targets_(view_targets),
        spills_(program.spills()),
        storage_(program_.num_slots, -1) {}

  void allocate(Slot slot, const Shape& shape, bool on_host = false) {
    storage_.at(slot) = static_cast<int>(bytes_.size());
    bytes_.push_back(Region::whole(shape).numel() * itemsize(program_, slot, "peak_bytes"));
    references_.push_back(1);
    on_host_.push_back(on_host);
    if (!on_host) live_ += bytes_.back();
  }

  /// `held` gets what is held after each instruction, before anything is freed.
  void walk(const std::set<Slot>& kept, std::vector<int64_t>& held) {
    std::multimap<int, Slot> read;  // what is freed, and the instruction after which it can be
    std::map<Slot, int> fetched;    // what late ones of its own read until after which instruction
    for_each_instr(program_, [&](int position, const Instr& instr) {
      if (const auto* free = std::get_if<FreeInstr>(&instr)) {
        if (!kept.count(free->slot)) read.emplace(last_read(free->slot, fetched), free->slot);
      } else if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
        for (const CopyPart& part : fetch->parts) {
          if (part.worker == worker_) note_late(part.slot, fetch->due, position, fetched);
        }
        fetch->view ? alias(fetch->dest, fetch->parts.front().slot)
                    : allocate(fetch->dest, fetch->shape);
      } else if (const auto* moved = std::get_if<MoveInstr>(&instr)) {
        move(*moved);
      } else {
        const auto& call = std::get<ComputeInstr>(instr);
        for (const ValueId slot : tensor_operands(call.args)) {
          note_late(static_cast<Slot>(slot), call.due, position, fetched);
        }
        compute(call);
      }
      held.push_back(live_);
      while (!read.empty() && read.begin()->first <= position) {
        release(read.begin()->second);
        read.erase(read.begin());
      }
    });
  }

  int64_t live() const { return live_; }

 private:
  void compute(const ComputeInstr& compute) {
    const ValueRef* first = nullptr;
    for (const Attr& arg : compute.args) {
      if (!first) first = std::get_if<ValueRef>(&arg);
    }
    const bool view = first && view_targets_.count(compute.target) && !compute.copies;
    for (size_t o = 0; o < compute.outputs.size(); ++o) {
      if (compute.outputs[o] == kNoSlot) continue;
      view ? alias(compute.outputs[o], first->id) : allocate(compute.outputs[o], made(compute, o));
    }
  }

  /// What is read until an instruction that comes later is due.
  void note_late(Slot slot, int due, int position, std::map<Slot, int>& read) const {
    if (due < 0) return;
    const auto forward = static_cast<int>(program_.forward.size());
    const int list = position < forward ? 0 : forward;
    int& last = read[slot];
    last = std::max(last, list + finished(due, position - list));
  }

  int last_read(Slot slot, const std::map<Slot, int>& fetched) const {
    if (spills_) return -1;  // others read what is on the host
    const auto here = fetched.find(slot);
    return std::max(reading_.done(worker_, slot), here == fetched.end() ? -1 : here->second);
  }

  /// The shape of an output as the kernel makes it, before a crop.
  static const Shape& made(const ComputeInstr& compute, size_t output) {
    if (!compute.crop.empty() && compute.computed.size() == compute.crop.size()) {
      return compute.computed;
    }
    if (!compute.crop.empty() || output >= compute.output_shapes.size()) {
      throw UserError("peak_bytes: the shape of output " + std::to_string(output) + " of " +
                      compute.target + " is not given");
    }
    return compute.output_shapes[output];
  }

  void alias(Slot slot, Slot base) {
    const int shared = storage(base);
    storage_.at(slot) = shared;
    ++references_[shared];
  }

  void release(Slot slot) {
    const int freed = storage(slot);
    if (--references_[freed] == 0 && !on_host_[freed]) live_ -= bytes_[freed];
  }

  void move(const MoveInstr& moved) {
    const int found = storage(moved.slots.front());
    const bool leaves = moved.kind == MoveInstr::Kind::kDrop;
    if (moved.kind == MoveInstr::Kind::kWrite || on_host_[found] == leaves) return;
    on_host_[found] = leaves;
    live_ += leaves ? -bytes_[found] : bytes_[found];
  }

  int storage(Slot slot) const {
    const int found = storage_.at(slot);
    if (found < 0) {
      throw UserError("peak_bytes: slot " + std::to_string(slot) + " is used before it is written");
    }
    return found;
  }

  const WorkerProgram& program_;
  const int worker_;
  const Reading& reading_;
  const std::set<std::string>& view_targets_;
  const bool spills_;
  std::vector<int> storage_;  ///< per slot
  std::vector<int64_t> bytes_;
  std::vector<int> references_;
  std::vector<bool> on_host_;
  int64_t live_ = 0;
};

}  // namespace

int due_of(const Instr& instr) {
  if (const auto* fetch = std::get_if<FetchInstr>(&instr)) return fetch->due;
  const auto* const compute = std::get_if<ComputeInstr>(&instr);
  return compute ? compute->due : -1;
}

const char* name_of(MoveInstr::Kind kind) {
  switch (kind) {
    case MoveInstr::Kind::kWrite:
      return "spill";
    case MoveInstr::Kind::kDrop:
      return "drop";
    case MoveInstr::Kind::kRestore:
      return "restore";
  }
  throw InternalError("a move of no kind");
}

namespace {

/// In how many pieces of memory a part of a dense tensor lies.
double pieces_of(const Region& part, const Shape& shape) {
  double pieces = 1;
  bool is_whole = true;  // all dimensions behind this one
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t size = part.shape()[d];
    if (!is_whole) pieces *= static_cast<double>(size);
    is_whole = is_whole && size == shape[d];
  }
  return pieces;
}

}  // namespace

OwnCopy own_copy(const FetchInstr& fetch, int worker) {
  OwnCopy own;
  if (fetch.view || fetch.shape_only) return own;
  for (const CopyPart& part : fetch.parts) {
    if (part.worker != worker) continue;
    const auto elements = static_cast<double>(part.dest.numel());
    own.elements += elements;
    if (elements > 0) own.pieces += pieces_of(part.dest, fetch.shape);
    if (part.source.list || part.dest.list) own.kind = "fetch of rows";
  }
  return own;
}

bool reads_others(const FetchInstr& fetch, int worker) {
  if (fetch.view || fetch.shape_only) return false;
  return std::any_of(fetch.parts.begin(), fetch.parts.end(),
                     [&](const CopyPart& part) { return part.worker != worker; });
}

int finished(int due, int position) { return std::max(position, due - 1); }

Reading::Reading(const Program& program) : done_(program.num_workers) {
  std::vector<std::vector<int>> written(program.num_workers);  // by worker and slot
  for (int w = 0; w < program.num_workers; ++w) {
    written[w].assign(program.workers[w].num_slots, -1);
    done_[w].assign(program.workers[w].num_slots, -1);
    for_each_instr(program.workers[w], [&](int position, const Instr& instr) {
      for_each_made(instr, [&](Slot slot) { written[w].at(slot) = position; });
    });
  }
  // By owner and reader: after which of the owner's instructions the reader has come how far.
  std::map<std::pair<int, int>, std::map<int, int>> known;  // the position by how far
  visit_remote_parts(program, [&](int w, int, int end, const CopyPart& part) {
    const int reached = written[part.worker].at(part.slot);
    const auto [found, is_new] = known[{w, part.worker}].try_emplace(reached, end);
    if (!is_new) found->second = std::min(found->second, end);
  });
  for (auto& [pair, progress] : known) {  // who has come further has come this far
    int soonest = kNever;
    for (auto entry = progress.rbegin(); entry != progress.rend(); ++entry) {
      soonest = entry->second = std::min(soonest, entry->second);
    }
  }
  visit_remote_parts(program, [&](int w, int begun, int end, const CopyPart& part) {
    const auto& progress = known[{part.worker, w}];
    const auto next = progress.lower_bound(end);
    const bool in_forward = begun < static_cast<int>(program.workers[w].forward.size());
    const auto last = static_cast<int>(program.workers[part.worker].forward.size()) - 1;
    int& done = done_[part.worker].at(part.slot);
    done = std::max(
        done, std::min(next == progress.end() ? kNever : next->second, in_forward ? last : kNever));
  });
}

std::vector<int64_t> held_bytes_given(const Reading& reading, const Program& program, int worker,
                                      const std::set<std::string>& view_targets) {
  Memory memory(program, worker, reading, view_targets);
  std::set<Slot> kept;
  for (const Binding& output : program.outputs) {
    if (!output.slots.empty()) kept.insert(output.slots.at(worker));
  }
  for (const Binding& input : program.inputs) {
    if (input.slots.at(worker) == kNoSlot) continue;
    if (static_cast<size_t>(worker) >= input.regions.size()) {
      throw UserError("peak_bytes: the regions of input value " + std::to_string(input.value) +
                      " are not given");
    }
    memory.allocate(input.slots[worker], input.regions[worker].shape(), program.spills());
  }
  std::vector<int64_t> held{memory.live()};
  memory.walk(kept, held);
  return held;
}

std::vector<int64_t> held_bytes(const Program& program, int worker,
                                const std::set<std::string>& view_targets) {
  if (worker < 0 || worker >= program.num_workers) {
    throw UserError("held_bytes: no worker " + std::to_string(worker) + " among " +
                    std::to_string(program.num_workers));
  }
  return held_bytes_given(Reading(program), program, worker, view_targets);
}

std::vector<int64_t> peak_bytes(const Program& program, const std::set<std::string>& view_targets) {
  std::vector<int64_t> peaks;
  const Reading reading(program);
  for (int w = 0; w < program.num_workers; ++w) {
    const std::vector<int64_t> held = held_bytes_given(reading, program, w, view_targets);
    peaks.push_back(*std::max_element(held.begin(), held.end()));
  }
  return peaks;
}

std::string operator_name(const ComputeInstr& compute) {
  return compute.what.empty() ? compute.target : compute.target + '[' + compute.what + ']';
}

std::string op_label(const ComputeInstr& compute) {
  return compute.op < 0 ? "added" : "op " + std::to_string(compute.op);
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

size_t Program::num_given() const {
  return static_cast<size_t>(std::count_if(
      inputs.begin(), inputs.end(), [](const Binding& input) { return input.contents.empty(); }));
}

int64_t moved_bytes(const Program& program, bool forward, bool backward) {
  int64_t bytes = 0;
  auto count = [&](int worker, const std::vector<Instr>& instrs) {
    for (const Instr& instr : instrs) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      int64_t elements = 0;
      for (const CopyPart& part : fetch->parts) {
        if (part.worker != worker) elements += part.dest.numel();
      }
      if (elements == 0) continue;
      bytes += elements * itemsize(program.workers[worker], fetch->dest, "moved_bytes");
    }
  };
  for (int w = 0; w < program.num_workers; ++w) {
    if (forward) count(w, program.workers[w].forward);
    if (backward) count(w, program.workers[w].backward);
  }
  return bytes;
}

}  // namespace smex
