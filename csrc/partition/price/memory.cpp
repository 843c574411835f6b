#include "partition/price/memory.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "partition/plan/dim_classes.h"
#include "partition/plan/grid.h"
#include "partition/plan/interner.h"
#include "partition/plan/recomputation.h"

namespace smex {

namespace {

bool outlives_an_iteration(const Value& value) {
  return value.role == Role::kParameter || value.role == Role::kBuffer ||
         value.role == Role::kConstant;
}

/// What calls hold beside the homes of tensors.
class Temporaries {
 public:
  Temporaries(const Graph& graph, const Plan& plan, const std::set<std::string>& views)
      : graph_(graph), plan_(plan), views_(views), classes_(graph), grids_(graph, classes_) {
    for (const Value& value : graph.values()) {
      std::vector<int64_t> key{value.itemsize};
      for (const Grain& grain : classes_.grains(value.id)) key.push_back(grain.key());
      key.insert(key.end(), value.shape.begin(), value.shape.end());
      const Choices& choices = plan.values[value.id];
      key.insert(key.end(), choices.begin(), choices.end());
      placed_.push_back(placements_.number(std::move(key)));
    }
  }

  int64_t of(const Op& op) {
    std::vector<int64_t> key{op.random, reinterpret_cast<int64_t>(op.spec.get()),
                             static_cast<int64_t>(views_.count(op.target))};
    for (size_t i = 0; op.spec && i < op.spec->indices.size(); ++i) {
      key.push_back(classes_.grain(op, static_cast<int>(i)).key());
    }
    key.insert(key.end(), plan_.ops[op.id].begin(), plan_.ops[op.id].end());
    for (ValueId input : op.inputs) key.push_back(placed_[input]);
    for (ValueId id : op.outputs) key.push_back(id == kNoValue ? kNoValue : placed_[id]);
    const auto [it, fresh] = known_.try_emplace(kinds_.number(std::move(key)), 0);
    if (fresh) it->second = compute(op);
    return it->second;
  }

 private:
  int64_t compute(const Op& op) {
    const OpGrid grid = grids_.make(op, plan_.ops[op.id], plan_.mesh);
    int64_t fetched = 0, made = 0, moved = 0, homes = 0;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const auto& need = grid.inputs[i];
      if (!need || moved_numel(home(op.inputs[i]), *need, plan_.mesh) == 0) continue;
      fetched += bytes(op.inputs[i], *need);
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const ValueId id = op.outputs[o];
      if (id == kNoValue || !grid.outputs[o]) continue;
      const Grid stays = home(id);
      const bool in_place = stored_numel(*grid.outputs[o], stays, plan_.mesh).value_or(0) == 0;
      if (views_.count(op.target) && in_place) continue;
      made += bytes(id, *grid.outputs[o]);
      homes += bytes(id, stays);
      if (!in_place) moved += bytes(id, *grid.outputs[o]);
    }
    // What is fetched is given up before the outputs go to their homes.
    return std::max(fetched + made - homes, moved);
  }

  Grid home(ValueId id) const {
    return home_grid(graph_.value(id).shape, classes_.grains(id), plan_.values[id], plan_.mesh);
  }

  int64_t bytes(ValueId id, const Grid& grid) const {
    return largest_numel(grid) * graph_.value(id).itemsize;
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::set<std::string>& views_;
  const DimClasses classes_;
  OpGrids grids_;
  Interner placements_;
  Interner kinds_;
  std::vector<int> placed_;                 ///< by value its number in `placements_`
  std::unordered_map<int, int64_t> known_;  ///< by kind of op
};

}  // namespace

std::vector<Lifetime> lifetimes(const Graph& graph, const std::set<std::string>& views) {
  const auto count = static_cast<OpId>(graph.ops().size());
  const Recomputation recomputed = recomputation(graph);
  std::vector<Lifetime> lifetimes(graph.values().size());
  for (const Value& value : graph.values()) {
    Lifetime& lifetime = lifetimes[value.id];
    lifetime.first = std::max(value.producer, 0);
    lifetime.last = outlives_an_iteration(value) ? count - 1 : lifetime.first;
    lifetime.is_view = value.producer >= 0 && views.count(graph.op(value.producer).target) &&
                       !graph.op(value.producer).inputs.empty();
  }
  // What runs again reads what it makes at once; what outlives that is for backward calls.
  std::vector<bool> outlives(graph.values().size(), false);
  const auto read = [&](const Op& op, OpId when, bool backward) {
    for (ValueId input : op.inputs) {
      const bool second = backward && recomputed.remade[input];
      OpId& last = second ? lifetimes[input].until : lifetimes[input].last;
      last = std::max(last, when);
    }
  };
  for (const Op& op : graph.ops()) {
    for (int position : recomputed.before[op.id]) {
      const Op& again = graph.op(position);
      read(again, op.id, /*backward=*/true);
      for (ValueId output : again.outputs) {
        if (output == kNoValue || !recomputed.remade[output]) continue;
        lifetimes[output].again = lifetimes[output].until = op.id;
      }
    }
    read(op, op.id, op.backward);
    if (!op.backward) continue;
    for (ValueId input : op.inputs) outlives[input] = true;
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) lifetimes[output.value].last = count - 1;
  }
  for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
    for (ValueId output : op->outputs) {
      if (output == kNoValue || !lifetimes[output].is_view) continue;
      Lifetime &base = lifetimes[op->inputs.front()], &view = lifetimes[output];
      base.last = std::max(base.last, view.last);
      OpId& until = recomputed.remade[op->inputs.front()] ? base.until : base.last;
      until = std::max(until, view.until);
      if (outlives[output]) outlives[op->inputs.front()] = true;
    }
  }
  for (const Value& value : graph.values()) {
    Lifetime& lifetime = lifetimes[value.id];
    if (!outlives[value.id]) lifetime.again = Lifetime().again, lifetime.until = Lifetime().until;
  }
  return lifetimes;
}

std::vector<int64_t> live_bytes(const Graph& graph, const Plan& plan,
                                const std::set<std::string>& views) {
  const DimClasses classes(graph);
  const std::vector<Lifetime> lives = lifetimes(graph, views);
  std::vector<int64_t> bytes(graph.ops().size() + 1, 0);
  for (const Value& value : graph.values()) {
    if (lives[value.id].is_view) continue;
    const int64_t numel =
        largest_home_numel(value.shape, classes.grains(value.id), plan.values[value.id], plan.mesh);
    lives[value.id].add(numel * value.itemsize, bytes);
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
}

int64_t peak_of_homes(const Graph& graph, const Plan& plan, const std::set<std::string>& views) {
  const std::vector<int64_t> live = live_bytes(graph, plan, views);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

int64_t least_peak(const Graph& graph, int workers, const std::set<std::string>& views,
                   double optimizer_states) {
  const std::vector<Lifetime> lives = lifetimes(graph, views);
  std::vector<bool> inner(graph.values().size(), false);
  for (const Fusion& fusion : graph.fusions()) {
    for (OpId member : fusion.members) {
      for (ValueId output : graph.op(member).outputs) {
        if (output != kNoValue) inner[output] = true;
      }
    }
  }
  std::vector<double> change(graph.ops().size() + 1, 0);
  for (const Value& value : graph.values()) {
    if (lives[value.id].is_view || inner[value.id]) continue;
    const double kept = value.role == Role::kParameter ? 1 + optimizer_states : 1;
    lives[value.id].add(kept * static_cast<double>(value.bytes()) / workers, change);
  }
  double live = 0, most = 0;
  for (double bytes : change) most = std::max(most, live += bytes);
  return static_cast<int64_t>(most * (1 - 1e-9));
}

int64_t peak_of_calls(const Graph& graph, const Plan& plan, const std::set<std::string>& views) {
  const std::vector<int64_t> live = live_bytes(graph, plan, views);
  const Recomputation recomputed = recomputation(graph);
  Temporaries temporaries(graph, plan, views);
  int64_t peak = 0;
  for (const Op& op : graph.ops()) {
    int64_t more = temporaries.of(op);
    for (int again : recomputed.before[op.id]) {
      more = std::max(more, temporaries.of(graph.op(again)));
    }
    peak = std::max(peak, live[op.id] + more);
  }
  return peak;
}

MemoryPoint heaviest_point(const Graph& graph, const Plan& plan,
                           const std::set<std::string>& views) {
  const std::vector<int64_t> live = live_bytes(graph, plan, views);
  const std::vector<Lifetime> lives = lifetimes(graph, views);
  const auto most = std::max_element(live.begin(), live.end());
  MemoryPoint point;
  if (most == live.end()) return point;
  point.op = static_cast<OpId>(most - live.begin());
  point.bytes = *most;
  for (const Value& value : graph.values()) {
    const Lifetime& life = lives[value.id];
    if (!life.is_view && life.holds(point.op)) {
      point.live.push_back(value.id);
    }
  }
  return point;
}

std::vector<int64_t> parameter_bytes_by_worker(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  std::vector<int64_t> bytes(mesh_size(plan.mesh), 0);
  for (const Value& value : graph.values()) {
    if (value.role != Role::kParameter) continue;
    const std::vector<Tile> tiles = home_layout(graph, classes, plan, value.id).tiles;
    for (size_t w = 0; w < tiles.size(); ++w) {
      if (tiles[w].held) bytes[w] += tiles[w].region.numel() * value.itemsize;
    }
  }
  return bytes;
}

int64_t parameter_bytes(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  int64_t bytes = 0;
  for (const Value& value : graph.values()) {
    if (value.role != Role::kParameter) continue;
    int64_t numel = 0;
    const auto kept = plan.shards.find(value.id);
    if (kept == plan.shards.end()) {
      numel = largest_home_numel(value.shape, classes.grains(value.id), plan.values[value.id],
                                 plan.mesh);
    } else {
      for (const Tile& tile : kept->second) {
        if (tile.held) numel = std::max(numel, tile.region.numel());
      }
    }
    bytes += numel * value.itemsize;
  }
  return bytes;
}

}  // namespace smex
