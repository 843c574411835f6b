#include "partition/search/reruns.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "partition/plan/recomputation.h"
#include "partition/price/memory.h"
#include "partition/price/price.h"
#include "partition/search/regions.h"
#include "tdl/spec.h"

namespace smex {

namespace {

/// Operations for an element that is read or written, up to which a call is cheap: a norm has ten,
/// a product as many as it adds up.
constexpr double kCheap = 32;

bool is_cheap(const Graph& graph, const Op& op) {
  if (op.backward || op.random || !op.spec || op.region != kNoRegion) return false;
  int64_t elements = 1;
  for (ValueId id : op.inputs) elements += graph.value(id).numel();
  for (ValueId id : op.outputs) {
    if (id != kNoValue) elements += graph.value(id).numel();
  }
  std::vector<int64_t> extents;
  for (const tdl::Index& index : op.spec->indices) extents.push_back(index.extent);
  return tdl::arithmetic(*op.spec, extents) <= kCheap * static_cast<double>(elements);
}

/// By value whether the backward pass reads it.
std::vector<bool> read_in_backward(const Graph& graph) {
  std::vector<bool> read(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    if (!op.backward) continue;
    for (ValueId input : op.inputs) read[input] = true;
  }
  return read;
}

/// A machine on which what costs nothing in bytes takes time: of an H100's order.
Machine common_machine(const Mesh& mesh) {
  return {{{{8, 5e14}, {16, 5e14}}, 3e12, 0}, std::vector<Link>(mesh.size(), Link{0, 4e11})};
}

/// Fusions stay whole: one whose forward members do not share a region has none.
void keep_fusions_whole(const Graph& graph, std::vector<int>& regions) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Fusion& fusion : graph.fusions()) {
      std::optional<int> shared;
      bool whole = true;
      for (OpId member : fusion.members) {
        if (graph.op(member).backward) continue;
        whole = whole && shared.value_or(regions[member]) == regions[member];
        shared = regions[member];
      }
      if (whole) continue;
      for (OpId member : fusion.members) {
        if (graph.op(member).region != kNoRegion || regions[member] == kNoRegion) continue;
        regions[member] = kNoRegion;
        changed = true;
      }
    }
  }
}

}  // namespace

std::vector<int> cheap_regions(const Graph& graph) {
  std::vector<int> regions = regions_of(graph);
  const std::vector<int> modules = module_regions(graph);
  std::vector<bool> kept = read_in_backward(graph);  // or made again
  for (const Value& value : graph.values()) {
    if (value.role != Role::kIntermediate) kept[value.id] = true;
  }
  int next = kNoRegion - 1, module = kNoRegion;
  bool in_run = false;
  for (const Op& op : graph.ops()) {
    if (op.backward || op.region != kNoRegion) continue;
    int64_t needed = 0, saved = 0;
    for (ValueId input : op.inputs) needed += kept[input] ? 0 : graph.value(input).bytes();
    for (ValueId output : op.outputs) {
      if (output != kNoValue && kept[output]) saved += graph.value(output).bytes();
    }
    if (!is_cheap(graph, op) || (needed > 0 && needed >= saved)) {
      in_run = false;
      continue;
    }
    if (!in_run || modules[op.id] != module) --next;
    in_run = true;
    module = modules[op.id];
    regions[op.id] = next + 1;
    for (ValueId input : op.inputs) kept[input] = true;
    for (ValueId output : op.outputs) {
      if (output != kNoValue) kept[output] = true;
    }
  }
  keep_fusions_whole(graph, regions);
  return regions;
}

double Reruns::Move::price() const {
  return bytes > 0 ? seconds / bytes : std::numeric_limits<double>::infinity();
}

Reruns::Reruns(const Graph& graph, const Plan& plan, const Machine* machine,
               const std::set<std::string>& views, Choice choice)
    : own_(regions_of(graph)) {
  const std::vector<int> whole = module_regions(graph);
  const int first = num_regions(own_);
  std::vector<Move> modules(num_regions(whole) - first);
  for (const Op& op : graph.ops()) {
    if (whole[op.id] >= first) modules[whole[op.id] - first].ops.push_back(op.id);
  }
  for (size_t n = 0; n < modules.size(); ++n) modules[n].region = first + static_cast<int>(n);
  if (choice == Choice::kModules) {
    moves_ = std::move(modules);
    return;
  }
  weigh(graph, plan, machine, views, whole, modules);
  const std::vector<int> cheap = cheap_regions(graph);
  std::map<int, Move, std::greater<>> by_region;
  for (const Op& op : graph.ops()) {
    if (is_open(cheap[op.id])) by_region[cheap[op.id]].ops.push_back(op.id);
  }
  std::vector<Move> runs;
  for (auto& [region, run] : by_region) {
    run.region = region;
    runs.push_back(std::move(run));
  }
  weigh(graph, plan, machine, views, cheap, runs);
  std::vector<std::vector<Move>> inside(modules.size());
  for (Move& run : runs) {
    if (run.bytes <= 0) continue;
    const int module = whole[run.ops.front()] - first;
    if (module < 0) {
      moves_.push_back(std::move(run));
    } else {
      inside[module].push_back(std::move(run));
    }
  }
  for (size_t n = 0; n < modules.size(); ++n) {
    add_module(std::move(modules[n]), std::move(inside[n]));
  }
  // Equal layers differ by rounding.
  std::stable_sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) {
    return static_cast<float>(a.price()) < static_cast<float>(b.price());
  });
}

/// Adds the lower convex hull of what a module can save: runs, while a byte of them costs less than
/// one that the whole module saves beside them; then the module.
void Reruns::add_module(Move whole, std::vector<Move> runs) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Move& a, const Move& b) { return a.price() < b.price(); });
  for (const Move& run : runs) {
    whole.seconds -= run.seconds;
    whole.bytes -= run.bytes;
  }
  while (!runs.empty() && whole.bytes > 0 && runs.back().price() >= whole.price()) {
    whole.seconds += runs.back().seconds;
    whole.bytes += runs.back().bytes;
    runs.pop_back();
  }
  whole.seconds = std::max(whole.seconds, 0.0);
  for (Move& run : runs) moves_.push_back(std::move(run));
  moves_.push_back(std::move(whole));
}

/// Counts what each region costs and saves where all of them run again.
void Reruns::weigh(const Graph& graph, const Plan& plan, const Machine* machine,
                   const std::set<std::string>& views, const std::vector<int>& regions,
                   std::vector<Move>& moves) const {
  if (moves.empty()) return;
  std::map<int, Move*> by_region;
  for (Move& move : moves) by_region[move.region] = &move;
  Graph again = graph;
  again.set_regions(regions);
  const Recomputation before = recomputation(graph), after = recomputation(again);
  const Machine common = common_machine(plan.mesh);
  const std::vector<OpPrice> prices = op_prices(graph, machine ? machine : &common, plan);
  for (Move& move : moves) {
    for (OpId op : move.ops) {
      if (after.runs(op) <= before.runs(op)) continue;
      move.seconds += prices[op].compute_seconds;
      for (double seconds : prices[op].step_seconds) move.seconds += seconds;
    }
  }
  const OpId point = heaviest_point(graph, plan, views).op;
  const std::vector<Lifetime> kept = lifetimes(graph, views), made = lifetimes(again, views);
  const DimClasses classes(graph);
  const auto region_of = [&](const Value& value) -> Move* {
    const auto named = [&](OpId op) -> Move* {
      const auto it = after.again[op] ? by_region.find(regions[op]) : by_region.end();
      return it == by_region.end() ? nullptr : it->second;
    };
    if (value.producer >= 0 && named(value.producer)) return named(value.producer);
    for (OpId user : value.users) {
      if (Move* move = named(user)) return move;
    }
    return nullptr;
  };
  for (const Value& value : graph.values()) {
    const bool held = kept[value.id].holds(point), holds = made[value.id].holds(point);
    if (kept[value.id].is_view || held == holds) continue;
    Move* move = region_of(value);
    if (!move) continue;
    const auto bytes = static_cast<double>(value.itemsize *
                                           largest_home_numel(value.shape, classes.grains(value.id),
                                                              plan.values[value.id], plan.mesh));
    move->bytes += held ? bytes : -bytes;
  }
}

std::vector<int> Reruns::regions(size_t count) const {
  std::vector<int> regions = own_;
  for (size_t n = 0; n < count; ++n) {
    for (OpId op : moves_[n].ops) regions[op] = moves_[n].region;
  }
  return regions;
}

}  // namespace smex
