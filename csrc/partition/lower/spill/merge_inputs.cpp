#include <algorithm>
#include <map>

#include "ir/error.h"
#include "partition/lower/spill/spill.h"

namespace smex {
namespace {

using Renamed = std::map<Slot, Slot>;

Slot renamed(const Renamed& names, Slot slot) {
  const auto found = names.find(slot);
  return found == names.end() ? slot : found->second;
}

void rename(const std::vector<Renamed>& names, int worker, Instr& instr) {
  if (auto* fetch = std::get_if<FetchInstr>(&instr)) {
    for (CopyPart& part : fetch->parts) part.slot = renamed(names[part.worker], part.slot);
    return;
  }
  auto* compute = std::get_if<ComputeInstr>(&instr);
  if (!compute) return;
  for (Attr& arg : compute->args) {
    if (auto* one = std::get_if<ValueRef>(&arg)) {
      one->id = renamed(names[worker], one->id);
    } else if (auto* some = std::get_if<std::vector<ValueRef>>(&arg)) {
      for (ValueRef& ref : *some) ref.id = renamed(names[worker], ref.id);
    }
  }
}

/// What is read again by another name is not freed; it stays as long as the call.
void drop_frees(const Renamed& names, std::vector<Instr>& list) {
  const auto is_shared = [&](Slot slot) {
    return names.count(slot) > 0 || std::any_of(names.begin(), names.end(), [&](const auto& name) {
             return name.second == slot;
           });
  };
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const Instr& instr) {
                              const auto* free = std::get_if<FreeInstr>(&instr);
                              return free && is_shared(free->slot);
                            }),
             list.end());
}

Binding& binding_of(Program& program, ValueId value) {
  const auto found = std::find_if(program.inputs.begin(), program.inputs.end(),
                                  [&](const Binding& input) { return input.value == value; });
  if (found != program.inputs.end()) return *found;
  throw UserError("merge_inputs: no input is value " + std::to_string(value));
}

}  // namespace

void merge_inputs(Program& program, const std::vector<std::vector<ValueId>>& groups) {
  std::vector<Renamed> names(program.num_workers);
  for (const std::vector<ValueId>& group : groups) {
    const Binding& first = binding_of(program, group.at(0));
    for (size_t n = 1; n < group.size(); ++n) {
      Binding& other = binding_of(program, group[n]);
      for (int w = 0; w < program.num_workers; ++w) {
        const bool is_same =
            first.slots[w] != kNoSlot && first.regions.at(w) == other.regions.at(w);
        if (other.slots[w] == kNoSlot || !is_same) continue;
        names[w][other.slots[w]] = first.slots[w];
        WorkerProgram& worker = program.workers[w];
        worker.remote_reads[first.slots[w]] += worker.remote_reads[other.slots[w]];
        worker.remote_reads[other.slots[w]] = 0;
        other.slots[w] = kNoSlot;
      }
    }
  }
  for (int w = 0; w < program.num_workers; ++w) {
    for (auto* list : {&program.workers[w].forward, &program.workers[w].backward}) {
      for (Instr& instr : *list) rename(names, w, instr);
      if (!names[w].empty()) drop_frees(names[w], *list);
    }
  }
}

}  // namespace smex
