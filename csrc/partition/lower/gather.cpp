#include "partition/lower/gather.h"

#include <algorithm>
#include <map>

#include "partition/lower/fetch.h"

namespace smex {
namespace {

/// Adds a worker's fetch of a region from the tiles of all.
Slot add_fetch(Program& program, int worker, std::vector<Instr> WorkerProgram::* list,
               const Move& move, const std::vector<Slot>& slots, const std::vector<Copy>& copies,
               ValueId value, int relayout, const std::string& kind) {
  WorkerProgram& own = program.workers[worker];
  const Region& frame = move.to[worker].region;
  FetchInstr fetch;
  fetch.value = value;
  fetch.dest = add_slot(own, move.name, move.itemsize);
  fetch.shape = frame.shape();
  fetch.dtype = move.dtype;
  fetch.kind = kind;
  fetch.relayout = relayout;
  add_parts(fetch, worker, frame, copies, move.from, slots, program);
  const Slot dest = fetch.dest;
  (own.*list).emplace_back(std::move(fetch));
  return dest;
}

/// The first number that no relayout has.
int next_relayout(const Program& program) {
  int last = -1;
  for (const WorkerProgram& worker : program.workers) {
    for (const auto* list : {&worker.forward, &worker.backward}) {
      for (const Instr& instr : *list) {
        const auto* const fetch = std::get_if<FetchInstr>(&instr);
        if (fetch) last = std::max(last, fetch->relayout);
      }
    }
  }
  return last + 1;
}

bool is_returned(const Graph& graph, const GraphOutput& output) {
  if (output.kind == OutputKind::kOutput) return output.value != kNoValue;
  return output.value != kNoValue && output.target != kNoValue &&
         graph.value(output.target).role == Role::kInput;
}

bool reads_of(const FetchInstr& fetch, int worker, Slot slot) {
  return std::any_of(fetch.parts.begin(), fetch.parts.end(), [&](const CopyPart& part) {
    return part.worker == worker && part.slot == slot;
  });
}

bool computes_with(const Instr& instr, Slot slot) {
  const auto* const compute = std::get_if<ComputeInstr>(&instr);
  if (!compute) return false;
  const std::vector<ValueId> operands = tensor_operands(compute->args);
  return std::find(operands.begin(), operands.end(), slot) != operands.end();
}

/// Whether a slot is needed after the forward list, by anybody.
bool outlives_forward(const Program& program, int worker, Slot slot) {
  for (int w = 0; w < program.num_workers; ++w) {
    for (const Instr& instr : program.workers[w].backward) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (fetch ? reads_of(*fetch, worker, slot) : w == worker && computes_with(instr, slot)) {
        return true;
      }
    }
  }
  return false;
}

bool is_bound(const Program& program, int worker, Slot slot) {
  const auto is_it = [&](const Binding& binding) { return binding.slots[worker] == slot; };
  return std::any_of(program.inputs.begin(), program.inputs.end(), is_it) ||
         std::any_of(program.outputs.begin(), program.outputs.end(), is_it);
}

/// The fetches are of relayout `number`.
void gather_output(const Returned& returned, const std::vector<int>& ranks, int number,
                   Program& program) {
  const Region whole = Region::whole(returned.shape);
  Binding& binding = program.outputs.at(returned.output);
  Move move{returned.name, returned.dtype, returned.itemsize, {}, {}};
  std::map<int, int> first;  // by process a worker that has the whole, or the first
  for (int w = 0; w < program.num_workers; ++w) {
    const bool held = binding.slots[w] != kNoSlot;
    move.from.tiles.push_back({held, binding.regions[w]});
    const bool has_whole = held && binding.regions[w] == whole;
    const auto [found, is_new] = first.try_emplace(ranks[w], w);
    if (!is_new && has_whole &&
        !(move.from.tiles[found->second].held && move.from.tiles[found->second].region == whole)) {
      found->second = w;
    }
  }
  move.to.resize(program.num_workers);
  bool is_there = true;
  for (const auto& [rank, worker] : first) {
    const Tile& own = move.from.tiles[worker];
    if (own.held && own.region == whole) continue;
    move.to[worker] = {true, whole};
    is_there = false;
  }
  if (is_there) return;
  const std::vector<Copy> copies = relayout(move.from, move.to);
  const std::vector<Slot> slots = binding.slots;
  const auto list = returned.is_gradient ? &WorkerProgram::backward : &WorkerProgram::forward;
  for (int w = 0; w < program.num_workers; ++w) {
    if (!move.to[w].held) continue;
    binding.slots[w] =
        add_fetch(program, w, list, move, slots, copies, binding.value, number, "gather");
    binding.regions[w] = whole;
    const bool is_last = list == &WorkerProgram::backward || slots[w] == kNoSlot ||
                         !outlives_forward(program, w, slots[w]);
    if (slots[w] != kNoSlot && is_last && !is_bound(program, w, slots[w])) {
      (program.workers[w].*list).emplace_back(FreeInstr{slots[w]});
    }
  }
}

}  // namespace

void gather_outputs(const std::vector<Returned>& returned, const std::vector<int>& ranks,
                    Program& program) {
  int number = next_relayout(program);
  for (const Returned& one : returned) gather_output(one, ranks, number++, program);
}

std::vector<Returned> returned_of(const Graph& graph) {
  std::vector<Returned> found;
  for (size_t n = 0; n < graph.outputs().size(); ++n) {
    const GraphOutput& output = graph.outputs()[n];
    if (!is_returned(graph, output)) continue;
    const Value& value = graph.value(output.value);
    found.push_back({n, value.name, value.dtype, value.itemsize, value.shape,
                     output.kind == OutputKind::kGradient});
  }
  return found;
}

Program relayout_program(const std::vector<Move>& moves) {
  Program program;
  program.num_workers = moves.empty() ? 1 : static_cast<int>(moves[0].to.size());
  program.workers.resize(program.num_workers);
  int number = 0;
  for (const Move& move : moves) {
    Binding from{number, {}, {}}, to{number, {}, {}};
    for (int w = 0; w < program.num_workers; ++w) {
      WorkerProgram& worker = program.workers[w];
      const Tile& tile = move.from.tiles[w];
      from.slots.push_back(tile.held ? add_slot(worker, move.name, move.itemsize) : kNoSlot);
      from.regions.push_back(tile.region);
    }
    const std::vector<Copy> copies = relayout(move.from, move.to);
    for (int w = 0; w < program.num_workers; ++w) {
      const Tile &own = move.from.tiles[w], &wanted = move.to[w];
      to.regions.push_back(wanted.region);
      if (!wanted.held || (own.held && own.region == wanted.region)) {
        to.slots.push_back(wanted.held ? from.slots[w] : kNoSlot);
      } else {
        to.slots.push_back(add_fetch(program, w, &WorkerProgram::forward, move, from.slots, copies,
                                     number, number, "relayout"));
      }
    }
    program.inputs.push_back(std::move(from));
    program.outputs.push_back(std::move(to));
    ++number;
  }
  return program;
}

}  // namespace smex
