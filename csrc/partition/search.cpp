#include "partition/search.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <unordered_map>

#include "ir/error.h"
#include "partition/coarsen.h"
#include "partition/factor_graph.h"
#include "partition/grid.h"
#include "partition/interner.h"
#include "partition/pending.h"
#include "partition/price.h"

namespace smex {

namespace {

using Domain = std::vector<int>;

/// More than any plan costs.
constexpr double kImpossible = 1e30;

/// A way to run an op in one step.
struct Strategy {
  int choice = kReplicate;
  uint64_t pending = 0;  ///< of kPending: the inputs, as bits, that are addends; the others are not
};

/// What the ops of one kind cost, in bytes or seconds: equal specs and strategies so far, on
/// tensors that are equal and cut alike so far. Layers that repeat are of one kind, whatever their
/// names.
struct OpCosts {
  std::vector<Strategy> strategies;
  /// By choices of the op's groups, the last fastest: the cost under the cheapest strategy, and
  /// which that is. Empty when there are too many choices.
  std::vector<double> cost;
  std::vector<int> best;
  /// Otherwise by operand: the cost by (choice of its group, strategy).
  std::vector<std::vector<double>> by_operand;
  std::vector<double> compute;  ///< by strategy
};

/// What a planner allows.
struct Rules {
  enum class Order { kExact, kLargestFirst, kRandom };
  bool rows_only = false;             ///< tensors are cut along dimension 0
  bool replicate_parameters = false;  ///< and what else is given is cut along dimension 0
  bool reductions = true;             ///< workers may make partial results
  bool pending = false;               ///< and leave them so between ops
  Order order = Order::kExact;
};

const std::map<std::string, Rules>& all_rules() {
  static const std::map<std::string, Rules> rules = {
      {"all_row", {.rows_only = true}},
      {"data_parallel", {.replicate_parameters = true, .pending = true}},
      {"equal_chop", {}},
      {"fsdp", {.replicate_parameters = true, .pending = true}},
      {"icml18", {.reductions = false}},
      {"random", {.order = Rules::Order::kRandom}},
      {"spartan", {.order = Rules::Order::kLargestFirst}},
      {"tofu", {.pending = true}},
  };
  return rules;
}

const Rules& rules_of(const std::string& planner) {
  const auto found = all_rules().find(planner);
  if (found != all_rules().end()) return found->second;
  std::string known;
  for (const std::string& name : planners()) known += (known.empty() ? "" : ", ") + name;
  throw UserError("search: unknown planner \"" + planner + "\"; known are " + known);
}

class Search {
 public:
  /// For `workers` in all, when all steps are added.
  Search(const Graph& graph, int workers, const SearchOptions& options)
      : graph_(graph),
        workers_(workers),
        options_(options),
        rules_(rules_of(options.planner)),
        random_(options.seed),
        classes_(graph),
        may_pend_(pending_values()),
        coarse_(coarsen(graph, may_pend_)),
        grids_(graph, classes_) {
    plan_.values.resize(graph.values().size());
    plan_.ops.resize(graph.ops().size());
    describe_values();
    describe_groups();
    describe_ops();
  }

  /// One step of the recursion: given the cuts so far, chooses the next cut of all values and ops.
  void add_step(int parts) {
    step_ = plan_.mesh.size();
    plan_.mesh.push_back(parts);
    for (Choices& choices : plan_.values) choices.push_back(kReplicate);
    for (Choices& choices : plan_.ops) choices.push_back(kReplicate);
    const auto [best, costs] = solve();
    apply(best, costs);
    total_ = best.value;
    plan_.exact = plan_.exact && best.exact;
    if (best.value > 0) {
      plan_.gap = std::max(plan_.gap, (best.value - best.lower_bound) / best.value);
    }
  }

  /// Chooses each step anew given all others, until none gains.
  void refine() {
    constexpr int kMaxSweeps = 10;
    size_t idle = 0;
    const size_t steps = plan_.mesh.size();
    for (size_t n = 0; idle < steps && n < kMaxSweeps * steps; ++n) {
      step_ = n % steps;
      const auto [best, costs] = solve();
      ++idle;
      if (best.value >= total_ * (1 - 1e-12)) continue;
      apply(best, costs);
      total_ = best.value;
      idle = 1;
    }
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
    int meaning = 0;          ///< spec and granules
  };
  struct Group {
    std::vector<int64_t> granules;  ///< by dimension, of all members
    bool parameter = false;         ///< some member outlives an iteration
    bool boundary = true;           ///< all members are given from outside
  };

  using Costs = std::vector<const OpCosts*>;

  /// The cheapest choices of step `step_`, the others as they are.
  std::pair<Assignment, Costs> solve() {
    domains_.clear();
    domain_numbers_.clear();
    op_variables_.clear();
    factors_.clear();
    problem_ = {};
    for (size_t g = 0; g < coarse_.groups.size(); ++g) add_domain(group_domain(g));
    describe_cuts();
    Costs costs;
    for (size_t c = 0; c < coarse_.classes.size(); ++c) costs.push_back(&add_class(c));
    if (!options_.memory_price.empty()) add_memory();
    return {decide(), std::move(costs)};
  }

  // ---- what does not change from step to step ----

  /// Values of which workers may hold addends: as much as if they were replicated.
  std::vector<bool> pending_values() const {
    if (!rules_.pending) return {};
    std::vector<bool> all = may_stay_pending(graph_);
    for (const Value& value : graph_.values()) {
      if (!rules_.replicate_parameters && !is_small(value)) all[value.id] = false;
    }
    return all;
  }

  bool is_small(const Value& value) const { return value.bytes() <= options_.replicate_bytes; }

  void describe_values() {
    for (const Value& value : graph_.values()) {
      std::vector<int64_t> key{-1, value.itemsize};
      key.insert(key.end(), value.shape.begin(), value.shape.end());
      granules_.push_back(classes_.granules(value.id));
      key.insert(key.end(), granules_.back().begin(), granules_.back().end());
      shapes_.push_back(kinds_.number(std::move(key)));
    }
  }

  void describe_groups() {
    for (const auto& members : coarse_.groups) {
      Group& group = groups_.emplace_back();
      const Shape& shape = graph_.value(members.front()).shape;
      group.granules.assign(shape.size(), 1);
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
      described.meaning = kinds_.number(std::move(key));
    }
  }

  // ---- what may be chosen in this step ----

  int parts() const { return plan_.mesh[step_]; }

  /// What is chosen, or given, of all steps but this one.
  std::vector<int> others(const std::vector<int>& all) const {
    std::vector<int> rest = all;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(step_));
    return rest;
  }

  /// Values that are equal and cut alike in the other steps get equal numbers.
  void describe_cuts() {
    value_kinds_.clear();
    for (const Value& value : graph_.values()) {
      std::vector<int64_t> key{-5, shapes_[value.id]};
      const Choices rest = others(plan_.values[value.id]);
      key.insert(key.end(), rest.begin(), rest.end());
      value_kinds_.push_back(kinds_.number(std::move(key)));
    }
  }

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
    const Value& value = graph_.value(members.front());
    const size_t rank = value.shape.size();
    const Mesh mesh = others(plan_.mesh);
    const Tile tile =
        value_tile(value.shape, others(plan_.values[value.id]), mesh, 0, granules_[value.id]);
    const bool data_parallel = rules_.replicate_parameters;
    Domain dims;
    const bool rows_only = rules_.rows_only || (data_parallel && group.boundary);
    for (size_t d = 0; d < (rows_only ? std::min<size_t>(1, rank) : rank); ++d) {
      if (data_parallel && group.parameter) break;
      if (tile.region.dims[d].size() / group.granules[d] >= parts())
        dims.push_back(static_cast<int>(d));
    }
    const bool free = is_small(value) || (data_parallel && !group.boundary);
    if (dims.empty() || free) dims.push_back(kReplicate);
    if (!may_pend_.empty() && may_pend_[value.id]) dims.push_back(kPending);
    return dims;
  }

  /// Every operand is held whole by everybody: a computation on parameters alone.
  bool only_replicas(const Op& op) const {
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
      return domains_[coarse_.group_of[input]] == Domain{kReplicate};
    });
  }

  /// The strategies that an op may use.
  std::vector<Strategy> op_domain(const Op& op) {
    std::vector<Strategy> found;
    if (op.spec) {
      const OpGrid grid = grids_.make(op, others(plan_.ops[op.id]), others(plan_.mesh));
      for (const tdl::Split& split : grids_.splits(op)) {
        if (!rules_.reductions && split.any_reduces()) continue;
        const int64_t size = grid.indices.empty() ? op.spec->indices[split.index].extent
                                                  : grid.indices[split.index].parts.front().size();
        const int64_t granule = std::max(split.granule, classes_.granule(op, split.index));
        if (size / granule >= parts()) found.push_back({split.index});
      }
    }
    int64_t made = 0;
    for (ValueId output : op.outputs) {
      if (output != kNoValue) made += graph_.value(output).bytes();
    }
    const bool free_to_repeat = made <= options_.replicate_bytes ||
                                (op.spec && is_data_movement(*op.spec)) ||
                                (rules_.replicate_parameters && only_replicas(op));
    if (found.empty() || free_to_repeat) found.push_back({kReplicate});
    if (rules_.pending && op.spec && !op.random) {
      for (const uint64_t set : grids_.linear_sets(op)) {
        if (all_may_pend(op, set)) found.push_back({kPending, set});
      }
    }
    return found;
  }

  bool all_may_pend(const Op& op, uint64_t set) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!(set >> i & 1)) continue;
      const Domain& domain = domains_[coarse_.group_of[op.inputs[i]]];
      if (std::find(domain.begin(), domain.end(), kPending) == domain.end()) return false;
    }
    return true;
  }

  // ---- what it costs ----

  /// The choices of the first `steps` steps, with `choice` in this one.
  Choices with(const Choices& all, int choice, size_t steps) const {
    Choices changed(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(steps));
    if (step_ < steps) changed[step_] = choice;
    return changed;
  }

  /// Adds the factors of an op class, and where its groups have too many choices a variable.
  const OpCosts& add_class(size_t number) {
    const OpClass& members = ops_[number];
    const OpCosts& costs = costs_of(members);
    const auto repeats = static_cast<double>(coarse_.classes[number].size());
    const auto add = [&](const std::vector<int>& groups, int variable,
                         const std::vector<double>& table) {
      std::vector<int> scope;  // what has one choice decides nothing
      for (int group : groups) {
        if (domains_[group].size() > 1) scope.push_back(group);
      }
      if (variable >= 0) scope.push_back(variable);
      const auto [it, fresh] = factors_.try_emplace(scope, problem_.factors.size());
      if (fresh) problem_.factors.push_back({scope, std::vector<double>(table.size(), 0)});
      std::vector<double>& sum = problem_.factors[it->second].table;
      for (size_t entry = 0; entry < table.size(); ++entry) sum[entry] += repeats * table[entry];
    };
    op_variables_.push_back(-1);
    if (costs.by_operand.empty()) {
      add(members.groups, -1, costs.cost);
      return costs;
    }
    const auto variable = static_cast<int>(problem_.domain_sizes.size());
    op_variables_.back() = variable;
    problem_.domain_sizes.push_back(static_cast<int>(costs.strategies.size()));
    for (size_t i = 0; i < members.operands.size(); ++i) {
      add({members.groups[members.operands[i].slot]}, variable, costs.by_operand[i]);
    }
    add({}, variable, costs.compute);
    return costs;
  }

  /// Adds what the tiles of each group cost by `memory_price`.
  void add_memory() {
    // The steps that are still to come divide the tiles.
    const double share = static_cast<double>(mesh_size(plan_.mesh)) / workers_;
    for (size_t g = 0; g < domains_.size(); ++g) {
      if (domains_[g].size() < 2) continue;
      std::vector<double> table;
      for (int dim : domains_[g]) {
        double cost = 0;
        for (ValueId id : coarse_.groups[g]) {
          if (options_.memory_price[id] == 0) continue;
          const Value& value = graph_.value(id);
          const Grid home = home_grid(value.shape, granules_[id],
                                      with(plan_.values[id], dim, plan_.mesh.size()), plan_.mesh);
          cost += options_.memory_price[id] *
                  static_cast<double>(largest_numel(home) * value.itemsize) * share;
        }
        table.push_back(cost);
      }
      problem_.factors.push_back({{static_cast<int>(g)}, std::move(table)});
    }
  }

  const OpCosts& costs_of(const OpClass& members) {
    std::vector<int64_t> key{-4, static_cast<int64_t>(step_),
                             static_cast<int64_t>(plan_.mesh.size()), members.meaning};
    const Choices rest = others(plan_.ops[members.op]);
    key.insert(key.end(), rest.begin(), rest.end());
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
    // By number of steps and strategy; seconds are those of each step, bytes those of all.
    const size_t steps = plan_.mesh.size();
    std::vector<Mesh> meshes;
    std::vector<std::vector<OpGrid>> grids;
    for (size_t count = options_.machine ? 1 : steps; count <= steps; ++count) {
      const Mesh& mesh = meshes.emplace_back(
          plan_.mesh.begin(), plan_.mesh.begin() + static_cast<std::ptrdiff_t>(count));
      auto& row = grids.emplace_back();
      for (const Strategy& strategy : costs.strategies) {
        if (count <= step_ && !row.empty()) break;  // the same under all strategies of this step
        row.push_back(grids_.make(op, with(plan_.ops[op.id], strategy.choice, count), mesh));
      }
    }
    // The steps that are still to come divide the work; in the mean as far as they can.
    const double share = static_cast<double>(mesh_size(plan_.mesh)) / workers_;
    for (const OpGrid& grid : grids.back()) {
      costs.compute.push_back(options_.machine ? share * options_.machine->compute(graph_, op, grid)
                                               : 0);
    }
    for (const Operand& operand : members.operands) {
      auto& table = costs.by_operand.emplace_back();
      const Choices& cuts = plan_.values[operand.value];
      for (int dim : domains_[members.groups[operand.slot]]) {
        for (size_t strategy = 0; strategy < costs.strategies.size(); ++strategy) {
          double cost = 0, before = 0;
          const bool wants_addends = costs.strategies[strategy].pending >> operand.position & 1;
          if (!operand.output && wants_addends != (dim == kPending)) cost = kImpossible;
          for (size_t n = 0; n < meshes.size(); ++n) {
            const size_t count = meshes[n].size();
            const OpGrid& grid = grids[n][count <= step_ ? 0 : strategy];
            const auto moved = this->moved(operand, grid, with(cuts, dim, count), meshes[n]);
            const double bytes = moved.value_or(0);
            if (!moved) cost = kImpossible;
            cost += options_.machine
                        ? options_.machine->transfer(count - 1, bytes - before, workers_)
                        : bytes;
            before = bytes;
          }
          table.push_back(cost);
        }
      }
    }
    join(members, costs);
    return costs;
  }

  /// Bytes that all workers move for an operand; nothing where its home has addends that the op
  /// does not make.
  std::optional<double> moved(const Operand& operand, const OpGrid& grid, const Choices& choices,
                              const Mesh& mesh) const {
    const auto& own = (operand.output ? grid.outputs : grid.inputs)[operand.position];
    if (!own) return 0;
    const Value& value = graph_.value(operand.value);
    const Grid home = home_grid(value.shape, granules_[value.id], choices, mesh);
    const std::optional<int64_t> numel =
        operand.output ? stored_numel(*own, home, mesh) : moved_numel(home, *own, mesh);
    if (!numel) return std::nullopt;
    return static_cast<double>(*numel * value.itemsize);
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
        double cost = costs.compute[strategy];
        for (size_t i = 0; i < members.operands.size(); ++i) {
          cost += costs.by_operand[i][digits[members.operands[i].slot] * strategies + strategy];
        }
        if (strategy > 0 && cost >= least) continue;
        least = cost;
        best = static_cast<int>(strategy);
      }
      costs.cost.push_back(least);
      costs.best.push_back(best);
      for (size_t d = digits.size(); d-- > 0;) {
        if (++digits[d] < domains_[members.groups[d]].size()) break;
        digits[d] = 0;
      }
    }
    costs.by_operand.clear();
  }

  Assignment decide() {
    if (rules_.order == Rules::Order::kExact) return minimise(problem_, options_.max_table);
    const size_t groups = coarse_.groups.size();
    std::vector<int> order(problem_.domain_sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<int> fixed(order.size(), -1);
    if (rules_.order == Rules::Order::kRandom) {
      for (size_t g = 0; g < groups; ++g) {
        fixed[g] = static_cast<int>(random_() % domains_[g].size());
      }
    }
    std::stable_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(groups),
                     [&](int a, int b) { return group_bytes(a) > group_bytes(b); });
    return decide_in_order(problem_, order, fixed);
  }

  int64_t group_bytes(int group) const {
    return graph_.value(coarse_.groups[group].front()).bytes();
  }

  // ---- what was chosen ----

  void apply(const Assignment& best, const Costs& costs) {
    for (size_t g = 0; g < coarse_.groups.size(); ++g) {
      const int dim = domains_[g][best.choices[g]];
      for (ValueId id : coarse_.groups[g]) plan_.values[id][step_] = dim;
    }
    for (size_t c = 0; c < ops_.size(); ++c) {
      const int strategy = strategy_of(c, best, *costs[c]);
      for (OpId id : coarse_.classes[c]) plan_.ops[id][step_] = strategy;
    }
  }

  int strategy_of(size_t number, const Assignment& best, const OpCosts& costs) const {
    if (op_variables_[number] >= 0) {
      return costs.strategies[best.choices[op_variables_[number]]].choice;
    }
    size_t entry = 0;
    for (int group : ops_[number].groups) {
      entry = entry * domains_[group].size() + static_cast<size_t>(best.choices[group]);
    }
    return costs.strategies[costs.best[entry]].choice;
  }

  const Graph& graph_;
  const int workers_;
  const SearchOptions& options_;
  const Rules& rules_;
  std::mt19937_64 random_;
  const DimClasses classes_;
  const std::vector<bool> may_pend_;  ///< by value; empty: none
  const CoarseGraph coarse_;
  OpGrids grids_;
  Plan plan_;
  size_t step_ = 0;
  Interner kinds_;
  std::vector<std::vector<int64_t>> granules_;  ///< by value and dimension
  std::vector<int> shapes_;                     ///< by value: shape, item size, granules
  std::vector<Group> groups_;
  std::vector<OpClass> ops_;
  std::unordered_map<int, OpCosts> costs_;  ///< by kind of op, step and number of steps
  double total_ = 0;
  // Of this step:
  std::vector<int> value_kinds_;     ///< by value: what it is, and its cuts in the other steps
  std::vector<Domain> domains_;      ///< by group
  std::vector<int> domain_numbers_;  ///< equal for equal domains
  std::vector<int> op_variables_;    ///< by op class its variable, or -1
  std::map<std::vector<int>, size_t> factors_;  ///< by variables the position in `problem_`
  FactorGraph problem_;
};

/// Parameters and their gradients are cut, each along the first dimension that is long enough;
/// what the ops do stays, so that they gather the ones and scatter the others.
void shard_parameters(const Graph& graph, Plan& plan) {
  const auto shard = [&](ValueId id) {
    Shape shape = graph.value(id).shape;
    for (size_t step = 0; step < plan.mesh.size(); ++step) {
      const int parts = plan.mesh[step];
      const auto dim =
          std::find_if(shape.begin(), shape.end(), [&](int64_t size) { return size >= parts; });
      if (dim == shape.end()) continue;
      *dim /= parts;
      plan.values[id][step] = static_cast<int>(dim - shape.begin());
    }
  };
  for (const Value& value : graph.values()) {
    if (value.role == Role::kParameter) shard(value.id);
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    if (output.target != kNoValue && graph.value(output.target).role == Role::kParameter) {
      shard(output.value);
    }
  }
}

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

const std::vector<std::string>& planners() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, rules] : all_rules()) all.push_back(name);
    return all;
  }();
  return names;
}

Plan search(const Graph& graph, const Mesh& mesh, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Search search(graph, mesh_size(mesh), options);
  for (int parts : mesh) search.add_step(parts);
  if (options.refine && options.planner == "tofu" && mesh.size() > 1) search.refine();
  Plan plan = search.take();
  plan.planner = options.planner;
  if (options.planner == "fsdp") shard_parameters(graph, plan);
  price(graph, options.machine ? &*options.machine : nullptr, plan);
  plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace smex
