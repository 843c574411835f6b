#include "partition/search.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <unordered_map>

#include "ir/error.h"
#include "partition/coarsen.h"
#include "partition/factor_graph.h"
#include "partition/grid.h"

namespace smex {

namespace {

/// Numbers for keys, equal for equal keys.
class Interner {
 public:
  int number(std::vector<int64_t> key) {
    const auto next = static_cast<int>(numbers_.size());
    return numbers_.try_emplace(std::move(key), next).first->second;
  }

 private:
  struct Hash {
    size_t operator()(const std::vector<int64_t>& key) const {
      size_t hash = key.size();
      for (int64_t part : key) {
        hash ^= static_cast<size_t>(part) * 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
      }
      return hash;
    }
  };
  std::unordered_map<std::vector<int64_t>, int, Hash> numbers_;
};

using Domain = std::vector<int>;

/// What the ops of one kind cost: equal specs and strategies so far, on tensors that are equal and
/// cut alike so far. Layers that repeat are of one kind, whatever they are called.
struct OpCosts {
  Domain strategies;
  /// By choices of the op's groups, the last fastest: bytes under the cheapest strategy, and which
  /// that is. Empty when there are too many choices.
  std::vector<double> bytes;
  std::vector<int> best;
  /// Otherwise by operand: bytes by (choice of its group, strategy).
  std::vector<std::vector<double>> by_operand;
};

class Search {
 public:
  Search(const Graph& graph, const SearchOptions& options)
      : graph_(graph),
        options_(options),
        classes_(graph),
        coarse_(coarsen(graph)),
        grids_(graph, classes_) {
    plan_.values.resize(graph.values().size());
    plan_.ops.resize(graph.ops().size());
    describe_values();
    describe_groups();
    describe_ops();
  }

  /// One step of the recursion: given the cuts so far, chooses the next cut of all values and ops.
  void step(int parts) {
    step_ = plan_.mesh.size();
    plan_.mesh.push_back(parts);
    domains_.clear();
    domain_numbers_.clear();
    problem_ = {};
    op_variables_.clear();
    for (size_t g = 0; g < coarse_.groups.size(); ++g) add_domain(group_domain(g));
    std::vector<const OpCosts*> costs;
    costs_.clear();
    for (size_t c = 0; c < coarse_.classes.size(); ++c) costs.push_back(&add_class(c));
    const Assignment best = minimise(problem_, options_.max_table);
    apply(best, costs);
  }

  Plan take() { return std::move(plan_); }

 private:
  /// The op's tensors: inputs, then the outputs that somebody uses.
  struct Operand {
    ValueId value;
    bool output;
    size_t position;
    size_t slot;  ///< of its group in `OpClass::groups`
  };
  struct OpClass {
    OpId op;
    std::vector<Operand> operands;
    std::vector<int> groups;  ///< distinct
    int kind = 0;             ///< spec, granules and strategies so far
  };
  struct Group {
    std::vector<int64_t> granules;  ///< by dimension, of all members
    std::vector<Interval> tile;     ///< worker 0's
    bool parameter = false;         ///< some member outlives an iteration
    bool boundary = true;           ///< all members are given from outside
  };

  // ---- what does not change from step to step ----

  std::vector<int64_t> granules_of(ValueId id) const {
    std::vector<int64_t> granules;
    for (size_t d = 0; d < graph_.value(id).shape.size(); ++d) {
      granules.push_back(classes_.granule(id, d));
    }
    return granules;
  }

  void describe_values() {
    for (const Value& value : graph_.values()) {
      std::vector<int64_t> key{-1, value.itemsize};
      key.insert(key.end(), value.shape.begin(), value.shape.end());
      granules_.push_back(granules_of(value.id));
      key.insert(key.end(), granules_.back().begin(), granules_.back().end());
      value_kinds_.push_back(kinds_.number(std::move(key)));
    }
  }

  void describe_groups() {
    for (const auto& members : coarse_.groups) {
      Group& group = groups_.emplace_back();
      const Shape& shape = graph_.value(members.front()).shape;
      group.granules.assign(shape.size(), 1);
      group.tile = Region::whole(shape).dims;
      for (ValueId id : members) {
        const Role role = graph_.value(id).role;
        group.parameter |=
            role == Role::kParameter || role == Role::kBuffer || role == Role::kConstant;
        group.boundary &= role != Role::kIntermediate;
        for (size_t d = 0; d < shape.size(); ++d) {
          group.granules[d] = std::max(group.granules[d], granules_[id][d]);
        }
      }
    }
  }

  void describe_ops() {
    for (const auto& members : coarse_.classes) {
      const Op& op = graph_.op(members.front());
      OpClass& described = ops_.emplace_back();
      described.op = op.id;
      const auto add = [&](ValueId id, bool output, size_t position) {
        const int group = coarse_.group_of[id];
        const auto known = std::find(described.groups.begin(), described.groups.end(), group);
        described.operands.push_back(
            {id, output, position, static_cast<size_t>(known - described.groups.begin())});
        if (known == described.groups.end()) described.groups.push_back(group);
      };
      for (size_t i = 0; i < op.inputs.size(); ++i) add(op.inputs[i], /*output=*/false, i);
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        if (op.outputs[o] != kNoValue) add(op.outputs[o], /*output=*/true, o);
      }
      std::vector<int64_t> key{-2, op.random, reinterpret_cast<int64_t>(op.spec.get())};
      if (op.spec) {
        for (size_t i = 0; i < op.spec->indices.size(); ++i) {
          key.push_back(classes_.granule(op, static_cast<int>(i)));
        }
      }
      described.kind = kinds_.number(std::move(key));
    }
  }

  // ---- what may be chosen in this step ----

  int parts() const { return plan_.mesh.back(); }

  void add_domain(Domain domain) {
    std::vector<int64_t> key{-3};
    key.insert(key.end(), domain.begin(), domain.end());
    domain_numbers_.push_back(kinds_.number(std::move(key)));
    problem_.domain_sizes.push_back(static_cast<int>(domain.size()));
    domains_.push_back(std::move(domain));
  }

  /// The cuts that a group may take.
  Domain group_domain(size_t number) const {
    const std::vector<ValueId>& members = coarse_.groups[number];
    for (ValueId id : members) {
      const auto pin = options_.pinned.find(id);
      if (pin != options_.pinned.end()) return {pin->second.at(step_)};
    }
    const Group& group = groups_[number];
    const size_t rank = group.tile.size();
    const bool data_parallel = options_.planner == "data_parallel";
    const bool rows_only = data_parallel || options_.planner == "all_row";
    Domain dims;
    for (size_t d = 0; d < (rows_only ? std::min<size_t>(1, rank) : rank); ++d) {
      if (data_parallel && group.parameter) break;
      if (group.tile[d].size() / group.granules[d] >= parts()) dims.push_back(static_cast<int>(d));
    }
    const bool small = graph_.value(members.front()).bytes() <= options_.replicate_bytes;
    if (dims.empty() || small || (data_parallel && !group.boundary)) dims.push_back(kReplicate);
    return dims;
  }

  /// Every operand is held whole by everybody: a computation on parameters alone.
  bool only_replicas(const Op& op) const {
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
      return domains_[coarse_.group_of[input]] == Domain{kReplicate};
    });
  }

  /// The strategies that an op may use.
  Domain op_domain(const Op& op) {
    Domain indices;
    if (op.spec) {
      const Mesh before(plan_.mesh.begin(), plan_.mesh.end() - 1);
      const OpGrid grid = grids_.make(op, plan_.ops[op.id], before);
      for (const tdl::Split& split : grids_.splits(op)) {
        const int64_t size = grid.indices.empty() ? op.spec->indices[split.index].extent
                                                  : grid.indices[split.index].parts.front().size();
        const int64_t granule = std::max(split.granule, classes_.granule(op, split.index));
        if (size / granule >= parts()) indices.push_back(split.index);
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

  // ---- what it costs ----

  static Choices with(Choices before, int choice) {
    before.push_back(choice);
    return before;
  }

  /// Adds the factors of an op class, and where its groups have too many choices a variable.
  const OpCosts& add_class(size_t number) {
    const OpClass& members = ops_[number];
    const OpCosts& costs = costs_of(members);
    const auto repeats = static_cast<double>(coarse_.classes[number].size());
    const auto add = [&](std::vector<int> variables, std::vector<double> table) {
      for (double& bytes : table) bytes *= repeats;
      problem_.factors.push_back({std::move(variables), std::move(table)});
    };
    op_variables_.push_back(-1);
    if (costs.by_operand.empty()) {
      add(members.groups, costs.bytes);
      return costs;
    }
    const auto variable = static_cast<int>(problem_.domain_sizes.size());
    op_variables_.back() = variable;
    problem_.domain_sizes.push_back(static_cast<int>(costs.strategies.size()));
    for (size_t i = 0; i < members.operands.size(); ++i) {
      add({members.groups[members.operands[i].slot], variable}, costs.by_operand[i]);
    }
    return costs;
  }

  const OpCosts& costs_of(const OpClass& members) {
    std::vector<int64_t> key{-4, members.kind};
    for (const Operand& operand : members.operands) {
      const int group = members.groups[operand.slot];
      key.insert(key.end(), {value_kinds_[operand.value], domain_numbers_[group],
                             static_cast<int64_t>(operand.slot * 2 + operand.output),
                             static_cast<int64_t>(operand.position)});
    }
    const auto [it, fresh] = costs_.try_emplace(kinds_.number(std::move(key)));
    if (fresh) it->second = compute_costs(members);
    return it->second;
  }

  OpCosts compute_costs(const OpClass& members) {
    const Op& op = graph_.op(members.op);
    OpCosts costs;
    costs.strategies = op_domain(op);
    std::vector<OpGrid> grids;
    for (int strategy : costs.strategies) {
      grids.push_back(grids_.make(op, with(plan_.ops[op.id], strategy), plan_.mesh));
    }
    for (const Operand& operand : members.operands) {
      auto& table = costs.by_operand.emplace_back();
      const Value& value = graph_.value(operand.value);
      for (int dim : domains_[members.groups[operand.slot]]) {
        const Grid home = home_grid(value.shape, granules_[value.id],
                                    with(plan_.values[value.id], dim), plan_.mesh);
        for (const OpGrid& grid : grids) {
          const auto& own = (operand.output ? grid.outputs : grid.inputs)[operand.position];
          const int64_t moved = !own             ? 0
                                : operand.output ? stored_numel(*own, home, plan_.mesh)
                                                 : moved_numel(home, *own, plan_.mesh);
          table.push_back(static_cast<double>(moved * value.itemsize));
        }
      }
    }
    join(members, costs);
    return costs;
  }

  /// The cheapest strategy for all choices of the groups, where they are not too many.
  void join(const OpClass& members, OpCosts& costs) const {
    constexpr int64_t kMaxJoint = 4096;
    int64_t entries = 1;
    for (int group : members.groups) {
      entries *= static_cast<int64_t>(domains_[group].size());
      if (entries > kMaxJoint) return;
    }
    const size_t strategies = costs.strategies.size();
    std::vector<size_t> digits(members.groups.size(), 0);
    for (int64_t entry = 0; entry < entries; ++entry) {
      int best = 0;
      double least = 0;
      for (size_t strategy = 0; strategy < strategies; ++strategy) {
        double bytes = 0;
        for (size_t i = 0; i < members.operands.size(); ++i) {
          bytes += costs.by_operand[i][digits[members.operands[i].slot] * strategies + strategy];
        }
        if (strategy > 0 && bytes >= least) continue;
        least = bytes;
        best = static_cast<int>(strategy);
      }
      costs.bytes.push_back(least);
      costs.best.push_back(best);
      for (size_t d = digits.size(); d-- > 0;) {
        if (++digits[d] < domains_[members.groups[d]].size()) break;
        digits[d] = 0;
      }
    }
    costs.by_operand.clear();
  }

  // ---- what was chosen ----

  void apply(const Assignment& best, const std::vector<const OpCosts*>& costs) {
    for (size_t g = 0; g < coarse_.groups.size(); ++g) {
      const int dim = domains_[g][best.choices[g]];
      for (ValueId id : coarse_.groups[g]) {
        plan_.values[id].push_back(dim);
        value_kinds_[id] = kinds_.number({-5, value_kinds_[id], dim, parts()});
      }
      if (dim == kReplicate) continue;
      Interval& range = groups_[g].tile[dim];
      range = cut(range, parts(), 0, granules_[coarse_.groups[g].front()][dim]);
    }
    for (size_t c = 0; c < ops_.size(); ++c) {
      const int strategy = strategy_of(c, best, *costs[c]);
      for (OpId id : coarse_.classes[c]) plan_.ops[id].push_back(strategy);
      ops_[c].kind = kinds_.number({-6, ops_[c].kind, strategy, parts()});
    }
    const int64_t before =
        std::accumulate(plan_.step_bytes.begin(), plan_.step_bytes.end(), int64_t{0});
    plan_.step_bytes.push_back(static_cast<int64_t>(best.value) - before);
    plan_.exact = plan_.exact && best.exact;
    if (best.value > 0) {
      plan_.gap = std::max(plan_.gap, (best.value - best.lower_bound) / best.value);
    }
  }

  int strategy_of(size_t number, const Assignment& best, const OpCosts& costs) const {
    if (op_variables_[number] >= 0) return costs.strategies[best.choices[op_variables_[number]]];
    size_t entry = 0;
    for (int group : ops_[number].groups) {
      entry = entry * domains_[group].size() + static_cast<size_t>(best.choices[group]);
    }
    return costs.strategies[costs.best[entry]];
  }

  const Graph& graph_;
  const SearchOptions& options_;
  const DimClasses classes_;
  const CoarseGraph coarse_;
  OpGrids grids_;
  Plan plan_;
  size_t step_ = 0;
  Interner kinds_;
  std::vector<std::vector<int64_t>> granules_;  ///< by value and dimension
  std::vector<int> value_kinds_;                ///< shape, item size, granules and cuts so far
  std::vector<Group> groups_;
  std::vector<OpClass> ops_;
  // Of this step:
  std::vector<Domain> domains_;      ///< by group
  std::vector<int> domain_numbers_;  ///< equal for equal domains
  std::vector<int> op_variables_;    ///< by op class its variable, or -1
  std::unordered_map<int, OpCosts> costs_;
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
  Search search(graph, options);
  for (int parts : mesh) search.step(parts);
  Plan plan = search.take();
  plan.planner = options.planner;
  plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace smex
