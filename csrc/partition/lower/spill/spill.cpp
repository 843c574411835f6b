#include "partition/lower/spill/spill.h"

#include <algorithm>

#include "ir/error.h"
#include "partition/lower/in_place.h"
#include "partition/lower/list_uses.h"
#include "partition/lower/overlap.h"
#include "partition/lower/spill/fewest_transfers.h"

namespace smex {
namespace {

/// Both lists of a worker as one, and what they do to pieces of memory.
class Blocks {
 public:
  Blocks(const Program& program, int worker, const std::set<std::string>& views)
      : program_(program.workers[worker]),
        worker_(worker),
        views_(views),
        uses_(program, worker, /*backward=*/false, views) {
    for (const auto* list : {&program_.forward, &program_.backward}) {
      for (const Instr& instr : *list) instrs_.push_back(&instr);
    }
    find_slots(program);
    find_uses();
  }

  const std::vector<const Instr*>& instrs() const { return instrs_; }
  int count() const { return static_cast<int>(slots_.size()); }
  int block(Slot slot) const { return uses_.storage(slot); }
  int64_t bytes(int block) const { return uses_.bytes(block); }
  bool begins_on_host(int block) const { return on_host_[block]; }
  /// Whether something reads it on the host, the caller or other workers.
  bool is_kept(int block) const { return kept_[block]; }
  bool is_kept_slot(Slot slot) const { return kept_slots_[slot]; }
  /// All slots in it, in the order in which they are made.
  const std::vector<Slot>& slots(int block) const { return slots_[block]; }
  /// Where an instruction runs that needs nothing on the device.
  bool is_view(int position) const { return is_view_[position]; }
  /// The instructions that need the block on the device, ascending.
  const std::vector<int>& uses(int block) const { return used_[block]; }

 private:
  void find_slots(const Program& program) {
    Slot last = -1;
    for (Slot slot = 0; slot < program_.num_slots; ++slot) last = std::max(last, block(slot));
    slots_.resize(last + 1);
    kept_.assign(last + 1, false);
    on_host_.assign(last + 1, false);
    used_.resize(last + 1);
    kept_slots_.assign(program_.num_slots, false);
    const auto add = [&](Slot slot) { slots_[block(slot)].push_back(slot); };
    for (const Binding& input : program.inputs) {
      if (input.slots[worker_] == kNoSlot) continue;
      add(input.slots[worker_]);
      on_host_[block(input.slots[worker_])] = true;
    }
    for (const Instr* instr : instrs_) for_each_made(*instr, add);
    for (const Binding& output : program.outputs) {
      if (output.slots[worker_] != kNoSlot) keep(output.slots[worker_]);
    }
    for (Slot slot = 0; slot < program_.num_slots; ++slot) {
      if (slot < static_cast<Slot>(program_.remote_reads.size()) && program_.remote_reads[slot] > 0)
        keep(slot);
    }
  }

  void keep(Slot slot) {
    kept_slots_[slot] = true;
    kept_[block(slot)] = true;
  }

  void find_uses() {
    is_view_.resize(instrs_.size());
    for (size_t n = 0; n < instrs_.size(); ++n) {
      is_view_[n] = only_views(*instrs_[n]);
      if (is_view_[n]) continue;
      const auto use = [&](Slot slot) { add_use(block(slot), static_cast<int>(n)); };
      for_each_read(*instrs_[n], worker_, use);
      for_each_made(*instrs_[n], use);
    }
    // A view of what is not needed any more: nothing of it is on the host.
    for (size_t n = 0; n < instrs_.size(); ++n) {
      if (!is_view_[n]) continue;
      for_each_made(*instrs_[n], [&](Slot slot) {
        const int b = block(slot);
        if (on_host_[b] || kept_[b] || used_[b].back() >= static_cast<int>(n)) return;
        add_use(b, static_cast<int>(n));
      });
    }
  }

  void add_use(int block, int position) {
    std::vector<int>& used = used_[block];
    if (used.empty() || used.back() != position) used.push_back(position);
  }

  bool only_views(const Instr& instr) const {
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) return fetch->view;
    const auto* compute = std::get_if<ComputeInstr>(&instr);
    if (!compute || viewed(*compute, views_) == kNoSlot) return false;
    return tensor_operands(compute->args).size() == 1;
  }

  const WorkerProgram& program_;
  const int worker_;
  const std::set<std::string>& views_;
  const ListUses uses_;
  std::vector<const Instr*> instrs_;
  std::vector<std::vector<Slot>> slots_;  ///< by block, as are the next three
  std::vector<bool> kept_, on_host_;
  std::vector<std::vector<int>> used_;
  std::vector<bool> kept_slots_;
  std::vector<bool> is_view_;  ///< by instruction
};

/// The instructions that are the steps of a problem.
std::vector<int> steps_of(const Blocks& blocks) {
  std::vector<bool> is_step(blocks.instrs().size(), false);
  for (int b = 0; b < blocks.count(); ++b) {
    for (const int position : blocks.uses(b)) is_step[position] = true;
  }
  std::vector<int> steps;
  for (size_t n = 0; n < is_step.size(); ++n) {
    if (is_step[n]) steps.push_back(static_cast<int>(n));
  }
  return steps;
}

SpillProblem problem_of(const Blocks& blocks, const std::vector<int>& steps, int64_t capacity) {
  std::vector<int> number(blocks.instrs().size(), -1);
  for (size_t n = 0; n < steps.size(); ++n) number[steps[n]] = static_cast<int>(n);
  SpillProblem problem{static_cast<int>(steps.size()), capacity, {}};
  for (int b = 0; b < blocks.count(); ++b) {
    SpillBlock block{blocks.bytes(b), {}, blocks.begins_on_host(b), blocks.is_kept(b)};
    for (const int position : blocks.uses(b)) block.uses.push_back(number[position]);
    problem.blocks.push_back(std::move(block));
  }
  return problem;
}

/// Writes a worker's lists anew with the transfers of a schedule.
class Writer {
 public:
  Writer(WorkerProgram& program, const Blocks& blocks, const std::vector<int>& steps,
         const SpillProblem& problem, const SpillSchedule& schedule)
      : program_(program),
        blocks_(blocks),
        problem_(problem),
        schedule_(schedule),
        residence_(problem),
        written_(blocks.count(), false),
        alive_(blocks.count()),
        step_of_(blocks.instrs().size(), -1) {
    for (size_t n = 0; n < steps.size(); ++n) step_of_[steps[n]] = static_cast<int>(n);
    for (int b = 0; b < blocks.count(); ++b) {
      written_[b] = blocks.begins_on_host(b);
      if (blocks.begins_on_host(b)) alive_[b].push_back(blocks.slots(b).front());
    }
  }

  void write() {
    const size_t forward = program_.forward.size();
    std::vector<Instr> lists[2];
    for (size_t n = 0; n < blocks_.instrs().size(); ++n) {
      out_ = &lists[n >= forward];
      add(static_cast<int>(n));
    }
    program_.forward = std::move(lists[0]);
    program_.backward = std::move(lists[1]);
  }

 private:
  void add(int position) {
    const Instr& instr = *blocks_.instrs()[position];
    if (const auto* free = std::get_if<FreeInstr>(&instr)) return release(free->slot);
    const int step = step_of_[position];
    if (step >= 0) enter(step);
    out_->push_back(instr);
    if (auto* compute = std::get_if<ComputeInstr>(&out_->back())) {
      compute->anywhere = blocks_.is_view(position);
    }
    std::vector<int> made;
    for_each_made(instr, [&](Slot slot) {
      alive_[blocks_.block(slot)].push_back(slot);
      const int b = blocks_.block(slot);
      const bool is_first = blocks_.is_kept(b) && slot == blocks_.slots(b).front();
      if (is_first || blocks_.is_kept_slot(slot)) made.push_back(b);
    });
    for (const int b : made) {
      if (residence_.is_there(b)) write_to_host(b);
    }
    if (step >= 0) leave(step);
  }

  void enter(int step) {
    for (const int b : schedule_.dropped[step]) {
      if (residence_.drop(b)) write_to_host(b);
      move(MoveInstr::Kind::kDrop, b, 0);
    }
    for (const int b : residence_.enter(step)) {
      move(MoveInstr::Kind::kRestore, b, blocks_.bytes(b));
    }
  }

  /// What is not needed any more leaves, though it may be freed later.
  void leave(int step) {
    for (const int b : residence_.used(step)) {
      if (problem_.blocks[b].uses.back() == step) ended_.push_back(b);
    }
    residence_.leave(step);
    for (const int b : ended_) move(MoveInstr::Kind::kDrop, b, 0);
    ended_.clear();
  }

  void write_to_host(int block) {
    move(MoveInstr::Kind::kWrite, block, written_[block] ? 0 : blocks_.bytes(block));
    written_[block] = true;
  }

  void move(MoveInstr::Kind kind, int block, int64_t bytes) {
    out_->push_back(MoveInstr{kind, alive_[block], bytes});
  }

  /// The first slot of a block is freed the last: what is known of the others is relative to it.
  void release(Slot slot) {
    const int b = blocks_.block(slot);
    std::vector<Slot>& alive = alive_[b];
    const Slot first = blocks_.slots(b).front();
    if (slot != first) {
      alive.erase(std::find(alive.begin(), alive.end(), slot));
      out_->push_back(FreeInstr{slot});
    } else {
      postponed_.insert(slot);
    }
    if (alive.size() == 1 && alive[0] == first && postponed_.erase(first) > 0) {
      alive.clear();
      out_->push_back(FreeInstr{first});
    }
  }

  WorkerProgram& program_;
  const Blocks& blocks_;
  const SpillProblem& problem_;
  const SpillSchedule& schedule_;
  Residence residence_;
  std::vector<bool> written_;             ///< by block: it has a copy on the host
  std::vector<std::vector<Slot>> alive_;  ///< by block, made and not freed
  std::vector<int> step_of_;              ///< by instruction, or -1
  std::vector<int> ended_;
  std::set<Slot> postponed_;
  std::vector<Instr>* out_ = nullptr;
};

std::string text_of(const Instr& instr, const WorkerProgram& program) {
  if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
    return operator_name(*compute) + (compute->source.empty() ? "" : " (" + compute->source + ")");
  }
  const auto& fetch = std::get<FetchInstr>(instr);
  const bool is_named = fetch.dest < static_cast<Slot>(program.slot_names.size());
  return "the " + fetch.kind + (is_named ? " of " + program.slot_names[fetch.dest] : "");
}

}  // namespace

LargestInstr largest_instr(const Program& program, const std::set<std::string>& views) {
  LargestInstr largest;
  for (int w = 0; w < program.num_workers; ++w) {
    const Blocks blocks(program, w, views);
    const std::vector<int> steps = steps_of(blocks);
    const std::vector<int64_t> bytes = problem_of(blocks, steps, 0).bytes_of_steps();
    const auto most = std::max_element(bytes.begin(), bytes.end());
    if (most == bytes.end() || *most <= largest.bytes) continue;
    const Instr& instr = *blocks.instrs()[steps[most - bytes.begin()]];
    largest = {*most, w, text_of(instr, program.workers[w])};
  }
  return largest;
}

SpillProblem spill_problem(const Program& program, int worker, const SpillOptions& options) {
  const Blocks blocks(program, worker, options.views);
  return problem_of(blocks, steps_of(blocks), options.capacity);
}

std::vector<SpillTraffic> spill(Program& program, const SpillOptions& options) {
  write_apart(program);
  const LargestInstr largest = largest_instr(program, options.views);
  if (largest.bytes > options.capacity) {
    throw UserError("spill: " + largest.text + " on worker " + std::to_string(largest.worker) +
                    " needs " + std::to_string(largest.bytes) +
                    " bytes, more than the capacity of " + std::to_string(options.capacity));
  }
  wait_at_once(program);
  std::vector<SpillTraffic> traffic;
  for (int w = 0; w < program.num_workers; ++w) {
    const Blocks blocks(program, w, options.views);
    const std::vector<int> steps = steps_of(blocks);
    const SpillProblem problem = problem_of(blocks, steps, options.capacity);
    const SpillSchedule schedule = schedule_transfers(problem, options.policy);
    traffic.push_back({schedule.to_host, schedule.to_device, schedule.least});
    Writer(program.workers[w], blocks, steps, problem, schedule).write();
  }
  program.device_memory = options.capacity;
  return traffic;
}

SpillTraffic spilled_bytes(const Program& program, bool forward, bool backward) {
  SpillTraffic traffic;
  for (const WorkerProgram& worker : program.workers) {
    for (const bool is_backward : {false, true}) {
      if (!(is_backward ? backward : forward)) continue;
      for (const Instr& instr : worker.list(is_backward)) {
        const auto* move = std::get_if<MoveInstr>(&instr);
        if (!move) continue;
        const bool is_back = move->kind == MoveInstr::Kind::kRestore;
        (is_back ? traffic.to_device : traffic.to_host) += move->bytes;
      }
    }
  }
  return traffic;
}

}  // namespace smex
