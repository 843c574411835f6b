#include "partition/search/recursion/recursion.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "partition/plan/weighting.h"
#include "partition/search/home_memory.h"

namespace smex {

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // of sums of seconds, relative

/// Whether a total is less than the one before by more than rounding.
bool gains(double total, double before) { return total < before * (1 - kRounding); }

}  // namespace

Recursion::Recursion(const Graph& graph, const Machine* machine, int workers,
                     const SearchOptions& options, Merge merge)
    : machine_(machine),
      workers_(workers),
      options_(options),
      merged_(graph, options, merge),
      grids_(graph, merged_.classes),
      kinds_(merged_),
      random_(options.seed) {
  plan_.values.resize(graph.values().size());
  plan_.ops.resize(graph.ops().size());
}

bool Recursion::try_steps(const Mesh& parts, double max_work) {
  const Steps steps{plan_.mesh.size(), parts.size()};
  plan_.mesh.insert(plan_.mesh.end(), parts.begin(), parts.end());
  for (Choices& choices : plan_.values) choices.resize(plan_.mesh.size(), kReplicate);
  for (Choices& choices : plan_.ops) choices.resize(plan_.mesh.size(), kReplicate);
  const auto next = stage(steps);
  const std::optional<Solution> solution = decide(*next, max_work);
  if (!solution) return false;
  apply(*solution, *next);
  const Assignment& best = solution->best;
  plan_.exact = plan_.exact && best.exact;
  if (best.value > 0) {
    plan_.gap = std::max(plan_.gap, (best.value - best.lower_bound) / best.value);
  }
  return true;
}

void Recursion::begin(const MemoryPrice& price) {
  price_ = &price;
  plan_ = {};
  plan_.values.resize(merged_.graph.values().size());
  plan_.ops.resize(merged_.graph.ops().size());
  refining_ = false;
}

void Recursion::refine() {
  constexpr int kMaxSweeps = 10;
  size_t idle = 0;
  const size_t steps = plan_.mesh.size();
  refining_ = true;
  for (size_t n = 0; idle < steps && n < kMaxSweeps * steps; ++n) {
    const auto again = stage({n % steps, 1});
    const Solution solution = *decide(*again, kNoLimit);
    ++idle;
    if (!solution.fits) continue;
    if (plan_.fits && !gains(solution.best.value, total_) && !is_smaller(solution, *again)) {
      continue;
    }
    apply(solution, *again);
    idle = 1;
  }
}

Recursion::Stage::Stage(const Recursion& all, OpGrids& grids, Steps steps)
    : steps(steps),
      domains(all.merged_, all.options_, grids, all.plan_, steps),
      problem(all.merged_, domains) {}

std::unique_ptr<Recursion::Stage> Recursion::stage(Steps steps) {
  auto stage = std::make_unique<Stage>(*this, grids_, steps);
  kinds_.begin(plan_, steps, stage->domains);
  const Costs costs(merged_, machine_, workers_, grids_, plan_, steps, stage->domains);
  for (size_t op_class = 0; op_class < merged_.ops.size(); ++op_class) {
    const auto [known, fresh] = costs_.try_emplace(kinds_.of(op_class));
    if (fresh) known->second = costs.of(merged_.ops[op_class]);
    stage->problem.add(known->second);
  }
  return stage;
}

// ---- the cheapest choices ----

/// Nothing where more than `max_work` is needed.
std::optional<Recursion::Solution> Recursion::decide(const Stage& stage, double max_work) {
  const FactorGraph& factors = stage.problem.factors();
  if (rules_of(options_.planner).order != Rules::Order::kExact) {
    return Solution{decide_greedily(stage)};
  }
  if (price_) return decide_priced(stage);
  // Steps that are still to come may be cheaper for one of them; only then memory decides.
  const bool last = refining_ || mesh_size(plan_.mesh) == workers_;
  const double rounding = machine_ ? kRounding : 0;  // bytes are exact
  Optima optima;
  Optima* all = last ? &optima : nullptr;
  if (max_work < kNoLimit) {
    auto found = minimise_exactly(factors, max_work, all, rounding);
    if (!found) return std::nullopt;
    if (!options_.memory_limit) return decide_smallest(stage, std::move(*found), optima);
  }
  if (options_.memory_limit) return decide_within_memory(stage);
  Assignment found = minimise(factors, options_.max_table, all, rounding);
  return decide_smallest(stage, std::move(found), optima);
}

Assignment Recursion::decide_greedily(const Stage& stage) {
  const FactorGraph& factors = stage.problem.factors();
  const size_t groups = stage.domains.groups();
  std::vector<int> order(factors.domain_sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> fixed(order.size(), -1);
  if (rules_of(options_.planner).order == Rules::Order::kRandom) {
    for (size_t g = 0; g < groups; ++g) {
      fixed[g] = static_cast<int>(random_() % stage.domains.of_group(static_cast<int>(g)).size());
    }
  }
  const auto bytes = [&](int group) {
    return merged_.graph.value(merged_.coarse.groups[group].front()).bytes();
  };
  std::stable_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(groups),
                   [&](int a, int b) { return bytes(a) > bytes(b); });
  return decide_in_order(factors, order, fixed);
}

/// Of the choices that cost as little as those found the ones that take the least memory.
Recursion::Solution Recursion::decide_smallest(const Stage& stage, Assignment found,
                                               const Optima& optima) {
  if (optima.open.empty()) return {std::move(found)};
  std::vector<std::vector<int>> chosen;
  for (int choice : found.choices) chosen.push_back({choice});
  std::vector<int> first(chosen.size(), 0);
  for (size_t n = 0; n < optima.open.size(); ++n) {
    const int variable = optima.open[n];
    const std::vector<int>& choices = chosen[variable] = optima.choices[n];
    const auto own = std::find(choices.begin(), choices.end(), found.choices[variable]);
    first[variable] = static_cast<int>(own - choices.begin());
  }
  const HomeMemory& memory = memory_of(stage, chosen, /*share=*/1);
  const std::vector<int> best = smallest(optima, memory, std::move(first));
  std::vector<int> choices = found.choices;
  for (int variable : optima.open) choices[variable] = chosen[variable][best[variable]];
  // What each choice is worse by rounding may add up.
  if (value_of(stage.problem.factors(), choices) <= found.value * (1 + kRounding)) {
    found.choices = std::move(choices);
  }
  return {std::move(found), /*fits=*/true, /*ties=*/true};
}

HomeMemory& Recursion::memory_of(const Stage& stage, const std::vector<std::vector<int>>& chosen,
                                 double share) {
  if (!memory_) memory_.emplace(merged_.graph, options_.views, options_.optimizer_states);
  memory_->clear();
  fill(*memory_, stage, chosen, [&](const Value& value, const Choices& cuts) {
    const auto& grains = merged_.grains[value.id];
    return static_cast<double>(largest_home_numel(value.shape, grains, cuts, plan_.mesh)) * share;
  });
  return *memory_;
}

/// Gives the bytes of values' homes under all choices that are `chosen`.
template <typename Numel>
void Recursion::fill(HomeMemory& memory, const Stage& stage,
                     const std::vector<std::vector<int>>& chosen, const Numel& numel) const {
  const auto first = static_cast<std::ptrdiff_t>(stage.steps.first);
  for (const Value& value : merged_.graph.values()) {
    if (!memory.counts(value.id)) continue;
    const int group = merged_.coarse.group_of[value.id];
    const Domain& domain = stage.domains.of_group(group);
    Choices cuts = plan_.values[value.id];
    std::vector<double> bytes;
    bytes.reserve(chosen[group].size());
    for (int choice : chosen[group]) {
      std::copy(domain[choice].begin(), domain[choice].end(), cuts.begin() + first);
      bytes.push_back(numel(value, cuts) * value.itemsize);
    }
    memory.set(value.id, group, std::move(bytes));
  }
}

std::vector<std::pair<HomeMemory, double>> Recursion::memory_by_kind(const Stage& stage) const {
  const Weighting* const weighting = stage.domains.weighting();
  const int parts = mesh_size(plan_.mesh);
  const std::vector<double> within = shares_within_parts(workers_, parts, weighting);
  std::map<std::pair<double, double>, std::vector<int>> kinds;  // by scale and weight
  for (int w = 0; w < workers_; ++w) {
    kinds[{options_.memory_scale[w], weighting ? weighting->shares[w] : 1}].push_back(w);
  }
  const auto chosen = all_choices(stage);
  std::vector<std::pair<HomeMemory, double>> found;
  for (const auto& [kind, workers] : kinds) {
    HomeMemory memory(merged_.graph, options_.views, options_.optimizer_states);
    fill(memory, stage, chosen, [&, &workers = workers](const Value& value, const Choices& cuts) {
      const Grid home = home_grid(value.shape, merged_.grains[value.id], cuts, plan_.mesh);
      double most = 0;
      for (const int w : workers) {
        const int64_t numel = numel_of(home, plan_.mesh, w / (workers_ / parts));
        most = std::max(most, within[w] * static_cast<double>(numel));
      }
      return most;
    });
    found.emplace_back(std::move(memory), *options_.memory_limit / kind.first);
  }
  return found;
}

std::vector<std::vector<int>> Recursion::all_choices(const Stage& stage) {
  std::vector<std::vector<int>> all;
  for (size_t group = 0; group < stage.domains.groups(); ++group) {
    all.emplace_back(stage.domains.of_group(static_cast<int>(group)).size());
    std::iota(all.back().begin(), all.back().end(), 0);
  }
  return all;
}

/// The choices that cost the least with what the homes cost.
Recursion::Solution Recursion::decide_priced(const Stage& stage) {
  // The steps that are still to come divide the tiles.
  const double share = static_cast<double>(mesh_size(plan_.mesh)) / workers_;
  FactorGraph factors = stage.problem.factors();
  for (auto& [group, weights] :
       memory_of(stage, all_choices(stage), share * price_->per_byte).shared(price_->shares)) {
    factors.factors.push_back({{group}, std::move(weights)});
  }
  return {minimise(factors, options_.max_table)};
}

/// Whether a solution that costs as much as the plan takes less memory.
bool Recursion::is_smaller(const Solution& solution, const Stage& stage) {
  if (!solution.ties || gains(total_, solution.best.value)) return false;
  bool differs = false;
  std::vector<std::vector<int>> chosen;
  for (size_t group = 0; group < stage.domains.groups(); ++group) {
    const Domain& domain = stage.domains.of_group(static_cast<int>(group));
    const Choices& all = plan_.values[merged_.coarse.groups[group].front()];
    const auto own = std::find_if(domain.begin(), domain.end(), [&](const Choices& cut) {
      return std::equal(cut.begin(), cut.end(),
                        all.begin() + static_cast<std::ptrdiff_t>(stage.steps.first));
    });
    if (own == domain.end()) return false;
    chosen.push_back({solution.best.choices[group]});
    if (domain[chosen.back().front()] == *own) continue;
    chosen.back().push_back(static_cast<int>(own - domain.begin()));
    differs = true;
  }
  if (!differs) return false;
  const HomeMemory& memory = memory_of(stage, chosen, /*share=*/1);
  const std::vector<int> found(chosen.size(), 0);
  std::vector<int> own;
  for (const auto& choices : chosen) own.push_back(static_cast<int>(choices.size()) - 1);
  return home_size(memory, found).less_than(home_size(memory, own));
}

/// The cheapest choices whose homes keep to the memory limit.
Recursion::Solution Recursion::decide_within_memory(const Stage& stage) {
  // The steps that are still to come divide the tiles.
  const double share = static_cast<double>(mesh_size(plan_.mesh)) / workers_;
  const size_t steps = plan_.mesh.size();
  std::vector<std::pair<HomeMemory, double>> kinds;
  if (!options_.memory_scale.empty()) kinds = memory_by_kind(stage);
  const HomeMemory* const alike =
      kinds.empty() ? &memory_of(stage, all_choices(stage), share) : nullptr;
  const auto worst = [&](const std::vector<int>& choices) -> std::optional<Limit> {
    if (alike) return alike->worst(choices, *options_.memory_limit);
    std::optional<Limit> found;
    double most = 0;
    for (const auto& [memory, bound] : kinds) {
      std::optional<Limit> limit = memory.worst(choices, bound);
      if (!limit || limit->sum(choices) / bound <= most) continue;
      most = limit->sum(choices) / bound;
      found = std::move(limit);
    }
    return found;
  };
  // As many attempts as take about as long as a search of a hundred steps; less for one step of
  // several, whose proof says little of the whole, and for each that is chosen anew.
  const bool whole = stage.steps.count == steps && mesh_size(plan_.mesh) == workers_;
  const int work = whole ? 60'000 : refining_ ? 0 : 5'000;
  const int solves = std::max(24, work / static_cast<int>(stage.domains.groups() + 1));
  WithinLimits found = minimise_within(stage.problem.factors(), worst, options_.max_table, solves);
  return {std::move(found.best), found.fits};
}

// ---- what was chosen ----

void Recursion::apply(const Solution& solution, const Stage& stage) {
  const Assignment& best = solution.best;
  total_ = best.value;
  plan_.fits = solution.fits;
  for (size_t g = 0; g < stage.domains.groups(); ++g) {
    const Choices& cut = stage.domains.of_group(static_cast<int>(g))[best.choices[g]];
    for (ValueId id : merged_.coarse.groups[g]) {
      std::copy(cut.begin(), cut.end(), plan_.values[id].begin() + stage.steps.first);
    }
  }
  for (size_t c = 0; c < merged_.ops.size(); ++c) {
    const Choices& choices = stage.problem.strategy(c, best).choices;
    for (OpId id : merged_.coarse.classes[c]) {
      std::copy(choices.begin(), choices.end(), plan_.ops[id].begin() + stage.steps.first);
    }
  }
}

std::optional<Plan> search_merged(const Graph& graph, const Machine* machine, const Mesh& mesh,
                                  const SearchOptions& options, Merge merge, double max_work) {
  Recursion recursion(graph, machine, mesh_size(mesh), options, merge);
  for (auto first = mesh.begin(); first != mesh.end();) {
    const auto next = first + std::min<std::ptrdiff_t>(options.joint, mesh.end() - first);
    if (!recursion.try_steps({first, next}, first == mesh.begin() ? max_work : kNoLimit)) {
      return std::nullopt;
    }
    first = next;
  }
  const bool refines = options.refine.value_or(mesh.size() <= kRefinedSteps);
  if (refines && options.planner == Planner::kTofu && mesh.size() > 1) recursion.refine();
  return recursion.plan();
}

}  // namespace smex
