#include "partition/lower/residency.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "partition/lower/list_uses.h"

namespace smex {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

template <typename Visit>
void for_each_instr(const WorkerProgram& worker, const Visit& visit) {
  int position = 0;
  for (const auto* instrs : {&worker.forward, &worker.backward}) {
    for (const Instr& instr : *instrs) visit(position++, instr);
  }
}

/// The shape of an output as the kernel makes it, before a crop.
const Shape& made_shape(const ComputeInstr& compute, size_t output) {
  if (!compute.crop.empty() && compute.computed.size() == compute.crop.size())
    return compute.computed;
  if (!compute.crop.empty() || output >= compute.output_shapes.size()) {
    throw UserError("peak_bytes: the shape of output " + std::to_string(output) + " of " +
                    compute.target + " is not given");
  }
  return compute.output_shapes[output];
}

int64_t numel(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

}  // namespace

/// Goes through a worker's lists once.
class Residency::Scan {
 public:
  Scan(const Program& program, int worker, const std::set<std::string>& view_targets, Worker& found)
      : program_(program.workers[worker]),
        worker_(worker),
        view_targets_(view_targets),
        spills_(program.spills()),
        found_(found),
        kept_(program_.num_slots, false) {
    found.forward = static_cast<int>(program_.forward.size());
    found.length = found.forward + static_cast<int>(program_.backward.size());
    found.storage.assign(program_.num_slots, -1);
    found.freed.assign(program_.num_slots, kNever);
    for (const Binding& output : program.outputs) {
      if (!output.slots.empty() && output.slots.at(worker) != kNoSlot)
        kept_.at(output.slots[worker]) = true;
    }
    for (const Binding& input : program.inputs) {
      if (input.slots.at(worker) == kNoSlot) continue;
      if (static_cast<size_t>(worker) >= input.regions.size()) {
        throw UserError("peak_bytes: the regions of input value " + std::to_string(input.value) +
                        " are not given");
      }
      allocate(input.slots[worker], input.regions[worker].shape(), spills_ ? kNever : -1, spills_);
    }
  }

  void run() {
    for_each_instr(program_, [&](int position, const Instr& instr) {
      if (const auto* free = std::get_if<FreeInstr>(&instr)) {
        if (kept_.at(free->slot)) return;
        storage(free->slot);
        found_.freed[free->slot] = position;
      } else if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
        note_reads(instr, position);
        if (fetch->view) alias(fetch->dest, fetch->parts.front().slot);
        if (!fetch->view && !fetch->begun) allocate(fetch->dest, fetch->shape, position);
      } else if (const auto* moved = std::get_if<MoveInstr>(&instr)) {
        move(*moved, position);
      } else {
        compute(std::get<ComputeInstr>(instr), instr, position);
      }
    });
    if (spills_) note_ends_on_host();
  }

 private:
  void allocate(Slot slot, const Shape& shape, int position, bool on_host = false) {
    if (slot < 0 || slot >= static_cast<Slot>(program_.slot_itemsizes.size())) {
      throw UserError("peak_bytes: expected slot_itemsizes for slot " + std::to_string(slot) +
                      ", found " + std::to_string(program_.slot_itemsizes.size()) + " of them");
    }
    found_.storage.at(slot) = static_cast<int>(found_.bytes.size());
    found_.bytes.push_back(numel(shape) * program_.slot_itemsizes[slot]);
    found_.made.push_back(position);
    on_host_.push_back(on_host);
  }

  int storage(Slot slot) const {
    const int found = found_.storage.at(slot);
    if (found < 0) {
      throw UserError("peak_bytes: slot " + std::to_string(slot) + " is used before it is written");
    }
    return found;
  }

  void alias(Slot slot, Slot base) { found_.storage.at(slot) = storage(base); }

  void note_reads(const Instr& instr, int position) {
    for_each_read(instr, worker_,
                  [&](Slot slot) { found_.late.push_back({&instr, position, slot}); });
  }

  void compute(const ComputeInstr& compute, const Instr& instr, int position) {
    const Slot base = viewed(compute, view_targets_);
    if (base != kNoSlot || compute.due >= 0) note_reads(instr, position);
    for (size_t o = 0; o < compute.outputs.size(); ++o) {
      const Slot out = compute.outputs[o];
      if (out == kNoSlot) continue;
      if (compute.inside.dest != kNoSlot) {
        allocate(compute.inside.dest, compute.inside.shape, position);
        alias(out, compute.inside.dest);
      } else {
        base != kNoSlot ? alias(out, base) : allocate(out, made_shape(compute, o), position);
      }
    }
  }

  void change(int position, int64_t bytes) {
    found_.changes.resize(found_.length, 0);
    found_.changes[position] += bytes;
  }

  void move(const MoveInstr& moved, int position) {
    const int which = storage(moved.slots.front());
    const bool leaves = moved.kind == MoveInstr::Kind::kDrop;
    if (moved.kind == MoveInstr::Kind::kWrite || on_host_[which] == leaves) return;
    on_host_[which] = leaves;
    change(position, leaves ? -found_.bytes[which] : found_.bytes[which]);
  }

  /// What is on the host when it is let go has left the device before.
  void note_ends_on_host() {
    std::vector<int> last(found_.bytes.size(), -1);
    for (Slot slot = 0; slot < program_.num_slots; ++slot) {
      const int which = found_.storage[slot];
      if (which >= 0) last[which] = std::max(last[which], found_.freed[slot]);
    }
    for (size_t s = 0; s < last.size(); ++s) {
      if (on_host_[s] && last[s] < found_.length - 1) change(last[s] + 1, found_.bytes[s]);
    }
  }

  const WorkerProgram& program_;
  const int worker_;
  const std::set<std::string>& view_targets_;
  const bool spills_;
  Worker& found_;
  std::vector<bool> kept_;     ///< by slot
  std::vector<bool> on_host_;  ///< by storage
};

Residency::Residency(const Program& program, const std::set<std::string>& view_targets)
    : program_(program),
      workers_(program.num_workers),
      pairs_(static_cast<size_t>(program.num_workers) * program.num_workers) {
  for (int w = 0; w < program.num_workers; ++w) Scan(program, w, view_targets, workers_[w]).run();
  list_remote_parts();
  update();
}

int Residency::end_of(int worker, int due, int position) const {
  const int list = position < workers_[worker].forward ? 0 : workers_[worker].forward;
  return list + finished(due, position - list);
}

void Residency::list_remote_parts() {
  std::vector<std::vector<int>> written(program_.num_workers);  // by worker and slot
  for (int w = 0; w < program_.num_workers; ++w) {
    written[w].assign(program_.workers[w].num_slots, -1);
    done_.emplace_back(program_.workers[w].num_slots, -1);
    for_each_instr(program_.workers[w], [&](int position, const Instr& instr) {
      for_each_made(instr, [&](Slot slot) { written[w].at(slot) = position; });
    });
  }
  for (int w = 0; w < program_.num_workers; ++w) {
    for_each_instr(program_.workers[w], [&](int position, const Instr& instr) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) return;
      for (const CopyPart& part : fetch->parts) {
        if (part.worker == w) continue;
        const int reached = written[part.worker].at(part.slot);
        parts_.push_back({fetch, w, position, part.worker, part.slot, reached});
        pair(w, part.worker).reached.push_back(reached);
      }
    });
  }
  for (Pair& each : pairs_) {
    std::sort(each.reached.begin(), each.reached.end());
    each.reached.erase(std::unique(each.reached.begin(), each.reached.end()), each.reached.end());
    each.soonest.resize(each.reached.size());
  }
  for (RemotePart& part : parts_) {
    const std::vector<int>& reached = pair(part.reader, part.owner).reached;
    const auto found = std::lower_bound(reached.begin(), reached.end(), part.reached);
    part.reached = static_cast<int>(found - reached.begin());
  }
}

void Residency::update() {
  for (Pair& each : pairs_) std::fill(each.soonest.begin(), each.soonest.end(), kNever);
  for (auto& slots : done_) std::fill(slots.begin(), slots.end(), -1);
  for (const RemotePart& part : parts_) {
    int& soonest = pair(part.reader, part.owner).soonest[part.reached];
    soonest = std::min(soonest, end_of(part.reader, part.fetch->due, part.position));
  }
  for (Pair& each : pairs_) {  // who has come further has come this far
    int soonest = kNever;
    for (auto entry = each.soonest.rbegin(); entry != each.soonest.rend(); ++entry) {
      soonest = *entry = std::min(soonest, *entry);
    }
  }
  for (const RemotePart& part : parts_) {
    const Pair& progress = pair(part.owner, part.reader);
    const int end = end_of(part.reader, part.fetch->due, part.position);
    const auto next = std::lower_bound(progress.reached.begin(), progress.reached.end(), end);
    const int known =
        next == progress.reached.end() ? kNever : progress.soonest[next - progress.reached.begin()];
    const bool in_forward = part.position < workers_[part.reader].forward;
    int& done = done_[part.owner][part.slot];
    done = std::max(done, std::min(known, in_forward ? workers_[part.owner].forward - 1 : kNever));
  }
}

std::vector<int64_t> Residency::held(int worker) const {
  const Worker& self = workers_[worker];
  std::vector<int> until = self.freed;  // by slot: after which instruction it is let go
  if (!program_.spills()) {             // others read what is on the host
    for (size_t slot = 0; slot < until.size(); ++slot) {
      if (until[slot] != kNever) until[slot] = std::max(until[slot], done_[worker][slot]);
    }
    for (const LateRead& read : self.late) {
      const int due = due_of(*read.instr), freed = self.freed[read.slot];
      if (due < 0 || freed == kNever || freed < read.position) continue;
      until[read.slot] = std::max(until[read.slot], end_of(worker, due, read.position));
    }
  }
  std::vector<int> last(self.bytes.size(), -1);  // by storage
  for (size_t slot = 0; slot < until.size(); ++slot) {
    if (self.storage[slot] < 0) continue;
    last[self.storage[slot]] = std::max(last[self.storage[slot]], until[slot]);
  }
  // At first the differences: of an instruction's number behind that of what was given.
  std::vector<int64_t> held(self.length + 1, 0);
  for (size_t s = 0; s < self.bytes.size(); ++s) {
    if (self.made[s] != kNever) held[self.made[s] + 1] += self.bytes[s];
    if (last[s] < self.length - 1) held[last[s] + 2] -= self.bytes[s];
  }
  for (size_t n = 0; n < self.changes.size(); ++n) held[n + 1] += self.changes[n];
  for (size_t n = 1; n < held.size(); ++n) held[n] += held[n - 1];
  return held;
}

std::vector<int64_t> held_bytes(const Program& program, int worker,
                                const std::set<std::string>& view_targets) {
  if (worker < 0 || worker >= program.num_workers) {
    throw UserError("held_bytes: no worker " + std::to_string(worker) + " among " +
                    std::to_string(program.num_workers));
  }
  return Residency(program, view_targets).held(worker);
}

std::vector<int64_t> peak_bytes(const Program& program, const std::set<std::string>& view_targets) {
  std::vector<int64_t> peaks;
  const Residency residency(program, view_targets);
  for (int w = 0; w < program.num_workers; ++w) {
    const std::vector<int64_t> held = residency.held(w);
    peaks.push_back(*std::max_element(held.begin(), held.end()));
  }
  return peaks;
}

}  // namespace smex
