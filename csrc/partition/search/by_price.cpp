#include "partition/search/by_price.h"

#include <algorithm>
#include <chrono>

#include "partition/price/price.h"

namespace smex {

namespace {

std::optional<Machine> machine_on(const Mesh& mesh, const SearchOptions& options) {
  if (!options.machine) return std::nullopt;
  return options.machine->on(mesh);
}

}  // namespace

SearchByPrice::SearchByPrice(const Graph& graph, Mesh mesh, SearchOptions options)
    : graph_(graph),
      mesh_(std::move(mesh)),
      options_(std::move(options)),
      machine_(machine_on(mesh_, options_)),
      recursion_(graph, machine_ && options_.objective == Objective::kTime ? &*machine_ : nullptr,
                 mesh_size(mesh_), options_, options_.merge.value_or(Merge::kPointwise)) {}

Plan SearchByPrice::with(const MemoryPrice& price) {
  const auto start = std::chrono::steady_clock::now();
  recursion_.begin(price);
  for (size_t first = 0; first < mesh_.size();) {
    const size_t count = std::min<size_t>(options_.joint, mesh_.size() - first);
    const auto begin = mesh_.begin() + static_cast<std::ptrdiff_t>(first);
    recursion_.try_steps({begin, begin + static_cast<std::ptrdiff_t>(count)});
    first += count;
  }
  if (options_.refine.value_or(mesh_.size() <= kRefinedSteps) && mesh_.size() > 1) {
    recursion_.refine();
  }
  Plan plan = recursion_.plan();
  plan.planner = name_of(options_.planner);
  plan.exact = false;
  place_parameters(options_.planner, graph_, options_.pinned, plan);
  smex::price(graph_, machine_ ? &*machine_ : nullptr, plan);
  plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace smex
