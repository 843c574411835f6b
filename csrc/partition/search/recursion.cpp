#include "partition/search/recursion.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <unordered_map>

#include "partition/plan/grid.h"
#include "partition/plan/interner.h"
#include "partition/plan/pending.h"
#include "partition/search/factor_graph.h"
#include "partition/search/memory.h"
#include "partition/search/rules.h"
#include "partition/search/within_limits.h"

namespace smex {

namespace {

/// What may be chosen of a tensor: for the steps that are chosen together, the dimension to cut in
/// each.
using Domain = std::vector<Choices>;

/// More than any plan costs.
constexpr double kImpossible = 1e30;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// A way to run an op in the steps that are chosen together.
struct Strategy {
  Choices choices;
  /// By step: of kPending the inputs, as bits, that are addends; the others are not.
  std::vector<uint64_t> pending;

  Strategy longer(int choice, uint64_t set = 0) const {
    Strategy more = *this;
    more.choices.push_back(choice);
    more.pending.push_back(set);
    return more;
  }
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

class Recursion {
 public:
  /// For `workers` in all, when all steps are added; `merge` is what is cut alike.
  Recursion(const Graph& graph, int workers, const SearchOptions& options, Merge merge)
      : graph_(graph),
        workers_(workers),
        options_(options),
        rules_(rules_of(options.planner)),
        random_(options.seed),
        classes_(graph),
        may_pend_(pending_values()),
        coarse_(coarsen(graph, may_pend_, merge)),
        grids_(graph, classes_) {
    plan_.values.resize(graph.values().size());
    plan_.ops.resize(graph.ops().size());
    describe_values();
    describe_groups();
    describe_ops();
  }

  /// Adds steps to the recursion: given the cuts so far, chooses the next cuts of all values and
  /// ops. False, and this is of no further use, where the elimination's tables would have more than
  /// `max_work` entries.
  bool try_steps(const Mesh& parts, double max_work) {
    first_ = plan_.mesh.size();
    count_ = parts.size();
    plan_.mesh.insert(plan_.mesh.end(), parts.begin(), parts.end());
    for (Choices& choices : plan_.values) choices.resize(plan_.mesh.size(), kReplicate);
    for (Choices& choices : plan_.ops) choices.resize(plan_.mesh.size(), kReplicate);
    const Solution solution = solve(max_work);
    if (solution.gave_up) return false;
    const Assignment& best = solution.best;
    apply(solution);
    plan_.exact = plan_.exact && best.exact;
    if (best.value > 0) {
      plan_.gap = std::max(plan_.gap, (best.value - best.lower_bound) / best.value);
    }
    return true;
  }

  /// Chooses each step anew given all others, until none gains.
  void refine() {
    constexpr int kMaxSweeps = 10;
    size_t idle = 0;
    const size_t steps = plan_.mesh.size();
    count_ = 1;
    refining_ = true;
    for (size_t n = 0; idle < steps && n < kMaxSweeps * steps; ++n) {
      first_ = n % steps;
      const Solution solution = solve();
      ++idle;
      const bool gains = solution.best.value < total_ * (1 - 1e-12);
      if (!solution.fits || (plan_.fits && !gains)) continue;
      apply(solution);
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

  struct Solution {
    Assignment best;
    std::vector<const OpCosts*> costs;  ///< by op class
    bool fits = true;                   ///< the memory limit
    bool gave_up = false;               ///< more work than allowed; nothing else is known
  };

  /// The cheapest choices of the steps that are chosen together, the others as they are.
  Solution solve(double max_work = kNoLimit) {
    domains_.clear();
    domain_numbers_.clear();
    op_variables_.clear();
    factors_.clear();
    problem_ = {};
    for (size_t g = 0; g < coarse_.groups.size(); ++g) add_domain(group_domain(g));
    describe_cuts();
    Solution solution;
    for (size_t c = 0; c < coarse_.classes.size(); ++c) solution.costs.push_back(&add_class(c));
    decide(solution, max_work);
    return solution;
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

  /// What is chosen, or given, of all steps but those that are chosen together; then `more`.
  std::vector<int> others(const std::vector<int>& all, const std::vector<int>& more = {}) const {
    std::vector<int> rest = all;
    const auto first = rest.begin() + static_cast<std::ptrdiff_t>(first_);
    rest.erase(first, first + static_cast<std::ptrdiff_t>(count_));
    rest.insert(rest.end(), more.begin(), more.end());
    return rest;
  }

  /// The mesh of all other steps, and of the first `count` that are chosen together.
  Mesh others_and(size_t count) const {
    const auto first = plan_.mesh.begin() + static_cast<std::ptrdiff_t>(first_);
    return others(plan_.mesh, {first, first + static_cast<std::ptrdiff_t>(count)});
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
    std::vector<int64_t> key{-3, static_cast<int64_t>(count_)};
    for (const Choices& cut : domain) key.insert(key.end(), cut.begin(), cut.end());
    domain_numbers_.push_back(kinds_.number(std::move(key)));
    problem_.domain_sizes.push_back(static_cast<int>(domain.size()));
    domains_.push_back(std::move(domain));
  }

  /// The cuts that a group may take.
  Domain group_domain(size_t number) const {
    for (ValueId id : coarse_.groups[number]) {
      const auto pin = options_.pinned.find(id);
      if (pin == options_.pinned.end()) continue;
      const auto first = pin->second.begin() + static_cast<std::ptrdiff_t>(first_);
      return {Choices(first, first + static_cast<std::ptrdiff_t>(count_))};
    }
    Domain domain{{}};
    for (size_t chosen = 0; chosen < count_; ++chosen) {
      Domain longer;
      for (const Choices& cut : domain) {
        for (int dim : next_cuts(number, cut)) {
          longer.push_back(cut);
          longer.back().push_back(dim);
        }
      }
      domain = std::move(longer);
    }
    return domain;
  }

  /// What a group may do in the step after those of `cut`.
  std::vector<int> next_cuts(size_t number, const Choices& cut) const {
    const Group& group = groups_[number];
    const Value& value = graph_.value(coarse_.groups[number].front());
    const size_t rank = value.shape.size();
    const int parts = plan_.mesh[first_ + cut.size()];
    const Tile tile = value_tile(value.shape, others(plan_.values[value.id], cut),
                                 others_and(cut.size()), 0, granules_[value.id]);
    const bool data_parallel = rules_.replicate_parameters;
    std::vector<int> dims;
    const bool rows_only = rules_.rows_only || (data_parallel && group.boundary);
    for (size_t d = 0; d < (rows_only ? std::min<size_t>(1, rank) : rank); ++d) {
      if (data_parallel && group.parameter) break;
      if (tile.region.dims[d].size() / group.granules[d] >= parts)
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
      return domains_[coarse_.group_of[input]] == Domain{Choices(count_, kReplicate)};
    });
  }

  /// The strategies that an op may use.
  std::vector<Strategy> op_domain(const Op& op) {
    std::vector<Strategy> domain{{}};
    for (size_t chosen = 0; chosen < count_; ++chosen) {
      std::vector<Strategy> longer;
      for (const Strategy& strategy : domain) add_longer(op, strategy, longer);
      domain = std::move(longer);
    }
    return domain;
  }

  /// Adds the strategies that do the same as this one, and then something in the next step.
  void add_longer(const Op& op, const Strategy& strategy, std::vector<Strategy>& found) {
    const size_t chosen = strategy.choices.size();
    bool divides = false;  // without partial results
    const int parts = plan_.mesh[first_ + chosen];
    if (op.spec) {
      const OpGrid grid =
          grids_.make(op, others(plan_.ops[op.id], strategy.choices), others_and(chosen));
      for (const tdl::Split& split : grids_.splits(op)) {
        if (!rules_.reductions && split.any_reduces()) continue;
        const int64_t size = grid.indices.empty() ? op.spec->indices[split.index].extent
                                                  : grid.indices[split.index].parts.front().size();
        const int64_t granule = std::max(split.granule, classes_.granule(op, split.index));
        if (size / granule < parts) continue;
        found.push_back(strategy.longer(split.index));
        divides = divides || !split.any_reduces();
      }
    }
    int64_t made = 0;
    for (ValueId output : op.outputs) {
      if (output != kNoValue) made += graph_.value(output).bytes();
    }
    const bool free_to_repeat = made <= options_.replicate_bytes ||
                                (op.spec && is_data_movement(*op.spec)) ||
                                (rules_.replicate_parameters && only_replicas(op));
    if (!divides || free_to_repeat) found.push_back(strategy.longer(kReplicate));
    if (!rules_.pending || !op.spec || op.random) return;
    for (const uint64_t set : grids_.linear_sets(op)) {
      if (all_may_pend(op, set, chosen)) found.push_back(strategy.longer(kPending, set));
    }
  }

  bool all_may_pend(const Op& op, uint64_t set, size_t chosen) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!(set >> i & 1)) continue;
      const Domain& domain = domains_[coarse_.group_of[op.inputs[i]]];
      if (std::none_of(domain.begin(), domain.end(),
                       [&](const Choices& cut) { return cut[chosen] == kPending; })) {
        return false;
      }
    }
    return true;
  }

  // ---- what it costs ----

  /// The choices of the first `steps` steps, with `chosen` in those that are chosen together.
  Choices with(const Choices& all, const Choices& chosen, size_t steps) const {
    Choices changed(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(steps));
    for (size_t i = 0; i < count_ && first_ + i < steps; ++i) changed[first_ + i] = chosen[i];
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

  const OpCosts& costs_of(const OpClass& members) {
    std::vector<int64_t> key{-4, static_cast<int64_t>(first_), static_cast<int64_t>(count_),
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
        if (count <= first_ && !row.empty()) break;  // the same under all strategies
        row.push_back(grids_.make(op, with(plan_.ops[op.id], strategy.choices, count), mesh));
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
      for (const Choices& cut : domains_[members.groups[operand.slot]]) {
        for (size_t strategy = 0; strategy < costs.strategies.size(); ++strategy) {
          double cost = 0, before = 0;
          if (!takes_addends(operand, costs.strategies[strategy], cut)) cost = kImpossible;
          for (size_t n = 0; n < meshes.size(); ++n) {
            const size_t count = meshes[n].size();
            const OpGrid& grid = grids[n][count <= first_ ? 0 : strategy];
            const auto moved = this->moved(operand, grid, with(cuts, cut, count), meshes[n]);
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

  /// Whether an input that is pending is one of the addends that the op computes with, and only
  /// then.
  static bool takes_addends(const Operand& operand, const Strategy& strategy, const Choices& cut) {
    for (size_t i = 0; i < cut.size() && !operand.output; ++i) {
      const bool wanted = strategy.pending[i] >> operand.position & 1;
      if (wanted != (cut[i] == kPending)) return false;
    }
    return true;
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

  void decide(Solution& solution, double max_work) {
    if (rules_.order != Rules::Order::kExact) {
      solution.best = decide_greedily();
      return;
    }
    if (max_work < kNoLimit) {
      auto found = minimise_exactly(problem_, max_work);
      solution.gave_up = !found;
      if (!found) return;
      solution.best = std::move(*found);
      if (!options_.memory_limit) return;
    }
    if (options_.memory_limit) {
      decide_within_memory(solution);
    } else {
      solution.best = minimise(problem_, options_.max_table);
    }
  }

  Assignment decide_greedily() {
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

  /// The cheapest choices whose homes keep to the memory limit.
  void decide_within_memory(Solution& solution) const {
    // The steps that are still to come divide the tiles.
    const double share = static_cast<double>(mesh_size(plan_.mesh)) / workers_;
    HomeMemory memory(graph_, options_.views, options_.optimizer_states, *options_.memory_limit);
    for (const Value& value : graph_.values()) {
      const int group = coarse_.group_of[value.id];
      std::vector<double> bytes;
      if (memory.counts(value.id)) {
        for (const Choices& cut : domains_[group]) {
          const Grid home =
              home_grid(value.shape, granules_[value.id],
                        with(plan_.values[value.id], cut, plan_.mesh.size()), plan_.mesh);
          bytes.push_back(static_cast<double>(largest_numel(home) * value.itemsize) * share);
        }
      }
      memory.add(value.id, group, std::move(bytes));
    }
    // As many attempts as take about as long as a search of a hundred steps; less for one step of
    // several, whose proof says little of the whole, and for each that is chosen anew.
    const bool whole = count_ == plan_.mesh.size() && mesh_size(plan_.mesh) == workers_;
    const int work = whole ? 60'000 : refining_ ? 0 : 5'000;
    const int solves = std::max(24, work / static_cast<int>(domains_.size() + 1));
    WithinLimits found = minimise_within(
        problem_, [&](const std::vector<int>& choices) { return memory.worst(choices); },
        options_.max_table, solves);
    solution.fits = found.fits;
    solution.best = std::move(found.best);
  }

  int64_t group_bytes(int group) const {
    return graph_.value(coarse_.groups[group].front()).bytes();
  }

  // ---- what was chosen ----

  void apply(const Solution& solution) {
    const Assignment& best = solution.best;
    total_ = best.value;
    plan_.fits = solution.fits;
    for (size_t g = 0; g < coarse_.groups.size(); ++g) {
      const Choices& cut = domains_[g][best.choices[g]];
      for (ValueId id : coarse_.groups[g]) {
        std::copy(cut.begin(), cut.end(), plan_.values[id].begin() + first_);
      }
    }
    for (size_t c = 0; c < ops_.size(); ++c) {
      const Choices& choices = strategy_of(c, best, *solution.costs[c]).choices;
      for (OpId id : coarse_.classes[c]) {
        std::copy(choices.begin(), choices.end(), plan_.ops[id].begin() + first_);
      }
    }
  }

  const Strategy& strategy_of(size_t number, const Assignment& best, const OpCosts& costs) const {
    if (op_variables_[number] >= 0) {
      return costs.strategies[best.choices[op_variables_[number]]];
    }
    size_t entry = 0;
    for (int group : ops_[number].groups) {
      entry = entry * domains_[group].size() + static_cast<size_t>(best.choices[group]);
    }
    return costs.strategies[costs.best[entry]];
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
  size_t first_ = 0, count_ = 1;  ///< the steps that are chosen together
  bool refining_ = false;         ///< steps are chosen anew
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

}  // namespace

std::optional<Plan> search_merged(const Graph& graph, const Mesh& mesh,
                                  const SearchOptions& options, Merge merge, double max_work) {
  Recursion recursion(graph, mesh_size(mesh), options, merge);
  for (auto first = mesh.begin(); first != mesh.end();) {
    const auto next = first + std::min<std::ptrdiff_t>(options.joint, mesh.end() - first);
    if (!recursion.try_steps({first, next}, first == mesh.begin() ? max_work : kNoLimit)) {
      return std::nullopt;
    }
    first = next;
  }
  if (options.refine && options.planner == "tofu" && mesh.size() > 1) recursion.refine();
  return recursion.take();
}

}  // namespace smex
