#include "partition/search.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "ir/error.h"
#include "partition/coarsen.h"
#include "partition/factor_graph.h"

namespace smex {

namespace {

/// One step of the recursion: given the cuts so far, chooses the next cut of every value and op.
class Step {
 public:
  Step(const Graph& graph, const DimClasses& classes, const CoarseGraph& coarse, const Plan& so_far,
       int parts, const SearchOptions& options)
      : graph_(graph), classes_(classes), coarse_(coarse), plan_(so_far), options_(options) {
    step_ = plan_.mesh.size();
    plan_.mesh.push_back(parts);
    parts_ = parts;
  }

  Plan run() {
    build_domains();
    build_factors();
    const Assignment best = minimise(problem_, options_.max_table);
    apply(best);
    plan_.exact = plan_.exact && best.exact;
    if (best.value > 0) {
      plan_.gap = std::max(plan_.gap, (best.value - best.lower_bound) / best.value);
    }
    return std::move(plan_);
  }

 private:
  Choices with(const Choices& before, int choice) const {
    Choices all = before;
    all.push_back(choice);
    return all;
  }

  /// The cuts that a group may take in this step.
  std::vector<int> group_domain(const std::vector<ValueId>& group) const {
    for (ValueId id : group) {
      const auto pin = options_.pinned.find(id);
      if (pin != options_.pinned.end()) return {pin->second.at(step_)};
    }
    const Value& value = graph_.value(group.front());
    const Region tile =
        home_layout(graph_, classes_, before_mesh(), value.id, plan_.values[value.id])
            .tiles.front()
            .region;
    bool parameter = false;
    bool boundary = true;
    for (ValueId id : group) {
      const Role role = graph_.value(id).role;
      parameter |= role == Role::kParameter || role == Role::kBuffer || role == Role::kConstant;
      boundary &= role != Role::kIntermediate;
    }
    std::vector<int> dims;
    const bool data_parallel = options_.planner == "data_parallel";
    const size_t last = options_.planner == "tofu" ? tile.rank() : std::min<size_t>(1, tile.rank());
    for (size_t d = 0; d < last && !(data_parallel && parameter); ++d) {
      int64_t granule = 1;
      for (ValueId id : group) granule = std::max(granule, classes_.granule(id, d));
      const int64_t units = tile.dims[d].size() / granule;
      if (units >= parts_) dims.push_back(static_cast<int>(d));
    }
    const bool small = value.bytes() <= options_.replicate_bytes;
    if (dims.empty() || small || (data_parallel && !boundary)) dims.push_back(kReplicate);
    return dims;
  }

  Mesh before_mesh() const { return {plan_.mesh.begin(), plan_.mesh.end() - 1}; }

  /// Every operand is held whole by everybody: a computation on parameters alone.
  bool only_replicas(const Op& op) const {
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
      return domains_[coarse_.group_of[input]] == std::vector<int>{kReplicate};
    });
  }

  /// The strategies that an op may use in this step.
  std::vector<int> op_domain(const Op& op, const std::vector<tdl::Split>& splits) const {
    std::vector<int> indices;
    if (op.spec) {
      const OpTiles tiles = op_tiles(graph_, classes_, op, splits, plan_.ops[op.id], before_mesh());
      for (const tdl::Split& split : splits) {
        const int64_t size = tiles.ranges.front()[split.index].size();
        const int64_t granule = std::max(split.granule, classes_.granule(op, split.index));
        if (size / granule >= parts_) indices.push_back(split.index);
      }
    }
    int64_t made = 0;
    for (ValueId output : op.outputs) {
      if (output != kNoValue) made += graph_.value(output).bytes();
    }
    const bool free_to_repeat = made <= options_.replicate_bytes ||
                                (op.spec && is_data_movement(*op.spec)) ||
                                (options_.planner == "data_parallel" && only_replicas(op));
    if (indices.empty() || free_to_repeat) indices.push_back(kReplicate);
    return indices;
  }

  void build_domains() {
    for (const auto& group : coarse_.groups) domains_.push_back(group_domain(group));
    for (const auto& members : coarse_.classes) {
      const Op& op = graph_.op(members.front());
      auto [it, fresh] = splits_.try_emplace(op.spec.get());
      if (fresh && op.spec) it->second = tdl::derive_splits(*op.spec);
      domains_.push_back(op_domain(op, it->second));
    }
    for (const auto& domain : domains_) {
      problem_.domain_sizes.push_back(static_cast<int>(domain.size()));
    }
  }

  /// What decides a cost table: spec, operand, item size, every cut so far and to come, and the
  /// granules of the value's dimensions and of the op's indices.
  using TableKey = std::tuple<const tdl::Spec*, bool, size_t, int, Shape, Choices, Choices,
                              std::vector<int>, std::vector<int>, std::vector<int64_t>>;

  void build_factors() {
    const int num_groups = static_cast<int>(coarse_.groups.size());
    for (size_t c = 0; c < coarse_.classes.size(); ++c) {
      const Op& op = graph_.op(coarse_.classes[c].front());
      const double repeats = static_cast<double>(coarse_.classes[c].size());
      const int strategy = num_groups + static_cast<int>(c);
      std::vector<OpTiles> tiles;  // one per strategy, made when a table asks
      auto add = [&](ValueId id, bool output, size_t position) {
        const int group = coarse_.group_of[id];
        Factor factor{{group, strategy}, table(op, id, output, position, strategy, tiles)};
        for (double& bytes : factor.table) bytes *= repeats;
        problem_.factors.push_back(std::move(factor));
      };
      for (size_t i = 0; i < op.inputs.size(); ++i) add(op.inputs[i], /*output=*/false, i);
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        if (op.outputs[o] != kNoValue) add(op.outputs[o], /*output=*/true, o);
      }
    }
  }

  /// Bytes by (cut of the value, strategy of the op).
  std::vector<double> table(const Op& op, ValueId id, bool output, size_t position, int strategy,
                            std::vector<OpTiles>& tiles) {
    const int group = coarse_.group_of[id];
    std::vector<int64_t> granules;
    for (size_t d = 0; d < graph_.value(id).shape.size(); ++d) {
      granules.push_back(classes_.granule(id, d));
    }
    for (size_t i = 0; op.spec && i < op.spec->indices.size(); ++i) {
      granules.push_back(classes_.granule(op, static_cast<int>(i)));
    }
    const int itemsize = graph_.value(id).itemsize;
    TableKey key{op.spec.get(),          output,           position,         itemsize,
                 graph_.value(id).shape, plan_.values[id], plan_.ops[op.id], domains_[group],
                 domains_[strategy],     granules};
    if (op.spec) {
      const auto known = tables_.find(key);
      if (known != tables_.end()) return known->second;
    }
    if (tiles.empty()) {
      for (int index : domains_[strategy]) {
        tiles.push_back(op_tiles(graph_, classes_, op, splits_.at(op.spec.get()),
                                 with(plan_.ops[op.id], index), plan_.mesh));
      }
    }
    std::vector<double> bytes;
    for (int dim : domains_[group]) {
      const Layout home =
          home_layout(graph_, classes_, plan_.mesh, id, with(plan_.values[id], dim));
      for (const OpTiles& tile : tiles) {
        bytes.push_back(static_cast<double>(
            output ? store_bytes(tile.outputs[position], home, itemsize)
                   : fetch_bytes(home, needed_tiles(tile, position), itemsize)));
      }
    }
    if (op.spec) tables_.emplace(std::move(key), bytes);
    return bytes;
  }

  void apply(const Assignment& best) {
    const size_t num_groups = coarse_.groups.size();
    for (size_t g = 0; g < num_groups; ++g) {
      for (ValueId id : coarse_.groups[g]) {
        plan_.values[id].push_back(domains_[g][best.choices[g]]);
      }
    }
    for (size_t c = 0; c < coarse_.classes.size(); ++c) {
      for (OpId id : coarse_.classes[c]) {
        plan_.ops[id].push_back(domains_[num_groups + c][best.choices[num_groups + c]]);
      }
    }
    int64_t before = 0;
    for (int64_t bytes : plan_.step_bytes) before += bytes;
    plan_.step_bytes.push_back(static_cast<int64_t>(best.value) - before);
  }

  const Graph& graph_;
  const DimClasses& classes_;
  const CoarseGraph& coarse_;
  Plan plan_;
  const SearchOptions& options_;
  size_t step_ = 0;
  int parts_ = 1;
  std::vector<std::vector<int>> domains_;  ///< groups, then op classes
  std::map<const tdl::Spec*, std::vector<tdl::Split>> splits_;
  std::map<TableKey, std::vector<double>> tables_;
  FactorGraph problem_;
};

}  // namespace

Mesh factorise(int workers) {
  if (workers < 1) {
    throw UserError("workers must be at least 1, got " + std::to_string(workers));
  }
  Mesh mesh;
  for (int factor = 2; workers > 1; ++factor) {
    while (workers % factor == 0) {
      mesh.push_back(factor);
      workers /= factor;
    }
  }
  std::sort(mesh.rbegin(), mesh.rend());
  return mesh;
}

Plan search(const Graph& graph, const Mesh& mesh, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.planner != "tofu" && options.planner != "data_parallel" &&
      options.planner != "all_row") {
    throw UserError("search: unknown planner \"" + options.planner +
                    "\"; known are \"tofu\", \"data_parallel\", \"all_row\"");
  }
  const DimClasses classes(graph);
  const CoarseGraph coarse = coarsen(graph);
  Plan plan;
  plan.values.resize(graph.values().size());
  plan.ops.resize(graph.ops().size());
  for (int parts : mesh) plan = Step(graph, classes, coarse, plan, parts, options).run();
  plan.planner = options.planner;
  plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace smex
