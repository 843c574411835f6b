#include "partition/lower/in_place.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "partition/lower/list_uses.h"
#include "partition/lower/residency.h"

namespace smex {
namespace {

constexpr std::array<std::string_view, 15> kWriting{
    "aten::_log_softmax",
    "aten::_log_softmax_backward_data",
    "aten::_softmax",
    "aten::_softmax_backward_data",
    "aten::add.Tensor",
    "aten::addmm",
    "aten::bmm",
    "aten::elu",
    "aten::elu_backward",
    "aten::gelu",
    "aten::gelu_backward",
    "aten::mm",
    "aten::mul.Tensor",
    "aten::sub.Tensor",
    "aten::threshold_backward",
};

/// Views that have the elements of their operand in its order.
constexpr std::array<std::string_view, 7> kReshaping{
    "aten::_unsafe_view", "aten::reshape",   "aten::squeeze", "aten::squeeze.dim",
    "aten::squeeze.dims", "aten::unsqueeze", "aten::view",
};

template <size_t N>
bool has(const std::array<std::string_view, N>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// How many elements of a dense tensor lie before a box of it that is one piece of its memory.
std::optional<int64_t> place_of(const Region& box, const Shape& shape) {
  if (box.list || box.empty()) return std::nullopt;
  size_t dim = 0;
  while (dim < shape.size() && shape[dim] == 1) ++dim;
  if (dim == shape.size()) return std::nullopt;
  int64_t row = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) {
    if (box.dims[d].size() != shape[d]) return std::nullopt;
    row *= shape[d];
  }
  return box.dims[dim].lo * row;
}

/// One list of a worker.
class WritingInPlace {
 public:
  WritingInPlace(const Program& program, int worker, bool backward,
                 const std::set<std::string>& views)
      : uses_(program, worker, backward, views), views_(views), worker_(worker) {}

  bool run(std::vector<Instr>& list) {
    bool found = false;
    for (Instr& instr : list) {
      auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch || fetch->view || fetch->reducing || fetch->shape_only) continue;
      for (CopyPart& part : fetch->parts) {
        if (fetch->begun || part.worker != worker_ || !is_whole(part)) continue;
        const auto place = place_of(part.dest, fetch->shape);
        ComputeInstr* const maker = place ? maker_of(list, part.slot) : nullptr;
        if (!maker || !ends_before(list, part.slot, fetch->dest)) continue;
        maker->inside = {fetch->dest, fetch->shape, fetch->dtype, *place};
        part.in_place = fetch->begun = found = true;
      }
    }
    return found;
  }

 private:
  bool is_whole(const CopyPart& part) const {
    return part.source == Region::whole(uses_.shape(part.slot));
  }

  /// The call whose result the slot has in its order, if it may write elsewhere.
  ComputeInstr* maker_of(std::vector<Instr>& list, Slot slot) const {
    while (uses_.made(slot) >= 0 && !uses_.is_kept(slot)) {
      Instr& instr = list[uses_.made(slot)];
      if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
        if (!fetch->view || !is_whole(fetch->parts.front())) return nullptr;
        slot = fetch->parts.front().slot;
        continue;
      }
      auto& compute = std::get<ComputeInstr>(instr);
      const Slot base = viewed(compute, views_);
      if (base != kNoSlot) {
        if (!has(kReshaping, compute.target)) return nullptr;
        slot = base;
        continue;
      }
      const bool may = compute.dense && compute.inside.dest == kNoSlot && compute.crop.empty() &&
                       compute.outputs.size() == 1 && writes_into(compute.target);
      return may ? &compute : nullptr;
    }
    return nullptr;
  }

  /// Whether nothing is made between the ends of the tile and of the result in it.
  bool ends_before(const std::vector<Instr>& list, Slot result, Slot tile) const {
    const int end = uses_.released()[uses_.storage(result)];
    const int tile_end = uses_.released()[uses_.storage(tile)];
    if (end <= tile_end) return true;
    if (end >= static_cast<int>(list.size()) || tile_end < 0) return false;
    return std::all_of(list.begin() + tile_end, list.begin() + end,
                       [](const Instr& instr) { return std::holds_alternative<FreeInstr>(instr); });
  }

  const ListUses uses_;
  const std::set<std::string>& views_;
  const int worker_;
};

/// Whether a fetch copies a part of the worker's own beside others'.
bool may_gain(const std::vector<Instr>& list, int worker) {
  return std::any_of(list.begin(), list.end(), [&](const Instr& instr) {
    const auto* const fetch = std::get_if<FetchInstr>(&instr);
    if (!fetch || fetch->view || fetch->reducing || fetch->parts.size() < 2) return false;
    return std::any_of(fetch->parts.begin(), fetch->parts.end(),
                       [&](const CopyPart& part) { return part.worker == worker; });
  });
}

void write_apart(WorkerProgram& worker) {
  for (auto* const list : {&worker.forward, &worker.backward}) {
    for (Instr& instr : *list) {
      if (auto* compute = std::get_if<ComputeInstr>(&instr)) compute->inside = {};
      auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      fetch->begun = false;
      for (CopyPart& part : fetch->parts) part.in_place = false;
    }
  }
}

}  // namespace

bool writes_into(const std::string& target) { return has(kWriting, target); }

void write_in_place(Program& program, const std::set<std::string>& views) {
  std::vector<int> changed;
  std::vector<int64_t> before;
  for (int w = 0; w < program.num_workers; ++w) {
    WorkerProgram& worker = program.workers[w];
    bool found = false;
    for (const bool backward : {false, true}) {
      auto& list = backward ? worker.backward : worker.forward;
      if (!may_gain(list, w)) continue;
      WritingInPlace writing(program, w, backward, views);
      if (before.empty()) before = peak_bytes(program, views);
      found = writing.run(list) || found;
    }
    if (found) changed.push_back(w);
  }
  if (changed.empty()) return;
  const std::vector<int64_t> after = peak_bytes(program, views);
  for (const int w : changed) {
    if (after[w] > before[w]) write_apart(program.workers[w]);
  }
}

void write_apart(Program& program) {
  for (WorkerProgram& worker : program.workers) write_apart(worker);
}

}  // namespace smex
