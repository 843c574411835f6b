#include "partition/search/rules.h"

#include <algorithm>

#include "ir/error.h"

namespace smex {

namespace {

struct Entry {
  std::string name;
  Rules rules;
};

using Messages = Rules::Messages;

/// Data parallelism of a given way to cut messages.
Rules by(Messages messages, Messages later) {
  Rules rules{.replicate_parameters = true, .pending = true, .one_step = messages == later};
  rules.messages = messages;
  rules.later_messages = later;
  return rules;
}

/// Sums are added up where they are made, so that any other op may follow.
Rules without_pending(Rules rules) {
  rules.pending = false;
  return rules;
}

/// One line for each planner, in the order of their names.
const std::map<Planner, Entry>& table() {
  static const std::map<Planner, Entry> entries = {
      {Planner::kAllRow, {"all_row", {.rows_only = true}}},
      {Planner::kDataParallel, {"data_parallel", by(Messages::kAny, Messages::kAny)}},
      {Planner::kEdges, {"edges", by(Messages::kByEdges, Messages::kByEdges)}},
      {Planner::kEqualChop, {"equal_chop", {.one_step = true}}},
      {Planner::kFeatures, {"features", by(Messages::kByFeatures, Messages::kByFeatures)}},
      {Planner::kFsdp, {"fsdp", by(Messages::kAny, Messages::kAny)}},
      {Planner::kGrid, {"grid", by(Messages::kByVertices, Messages::kByFeatures)}},
      {Planner::kHomes, {"homes", without_pending(by(Messages::kAny, Messages::kAny))}},
      {Planner::kIcml18, {"icml18", {.reductions = false}}},
      {Planner::kRandom, {"random", {.order = Rules::Order::kRandom}}},
      {Planner::kSpartan, {"spartan", {.order = Rules::Order::kLargestFirst}}},
      {Planner::kTofu, {"tofu", {.pending = true}}},
      {Planner::kVertices, {"vertices", by(Messages::kByVertices, Messages::kByVertices)}},
  };
  return entries;
}

}  // namespace

const Rules& rules_of(Planner planner) { return table().at(planner).rules; }

const std::string& name_of(Planner planner) { return table().at(planner).name; }

Planner planner_of(const std::string& name) {
  std::string known;
  for (const auto& [planner, entry] : table()) {
    if (entry.name == name) return planner;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw UserError("search: unknown planner \"" + name + "\"; known are " + known);
}

const std::vector<Planner>& all_planners() {
  static const std::vector<Planner> planners = [] {
    std::vector<Planner> all;
    for (const auto& [planner, entry] : table()) all.push_back(planner);
    return all;
  }();
  return planners;
}

namespace {

/// Parameters that are not pinned, each with its gradients.
std::vector<std::vector<ValueId>> free_parameters(const Graph& graph,
                                                  const std::map<ValueId, Choices>& pinned) {
  std::map<ValueId, std::vector<ValueId>> found;
  for (const Value& value : graph.values()) {
    if (value.role == Role::kParameter && !pinned.count(value.id)) found[value.id] = {value.id};
  }
  for (const GraphOutput& output : graph.outputs()) {
    const auto parameter = found.find(output.target);
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    if (parameter != found.end()) parameter->second.push_back(output.value);
  }
  std::vector<std::vector<ValueId>> all;
  for (auto& [id, values] : found) all.push_back(std::move(values));
  return all;
}

Choices sharded(Shape shape, const Mesh& mesh, Choices choices) {
  for (size_t step = 0; step < mesh.size(); ++step) {
    const int parts = mesh[step];
    const auto dim =
        std::find_if(shape.begin(), shape.end(), [&](int64_t size) { return size >= parts; });
    if (dim == shape.end()) continue;
    *dim /= parts;
    choices[step] = static_cast<int>(dim - shape.begin());
  }
  return choices;
}

}  // namespace

Choices only_at_worker(const Mesh& mesh, int worker) {
  Choices choices;
  for (size_t step = 0; step < mesh.size(); ++step) {
    choices.push_back(only_at(mesh_coordinate(mesh, worker, static_cast<int>(step))));
  }
  return choices;
}

void place_parameters(Planner planner, const Graph& graph, const std::map<ValueId, Choices>& pinned,
                      Plan& plan) {
  if (planner != Planner::kFsdp && planner != Planner::kHomes) return;
  std::vector<std::vector<ValueId>> parameters = free_parameters(graph, pinned);
  std::stable_sort(parameters.begin(), parameters.end(), [&](const auto& a, const auto& b) {
    return graph.value(a.front()).bytes() > graph.value(b.front()).bytes();
  });
  std::vector<int64_t> held(mesh_size(plan.mesh), 0);
  for (const std::vector<ValueId>& values : parameters) {
    const auto home = std::min_element(held.begin(), held.end());
    *home += graph.value(values.front()).bytes();
    for (const ValueId id : values) {
      plan.values[id] = planner == Planner::kFsdp
                            ? sharded(graph.value(id).shape, plan.mesh, plan.values[id])
                            : only_at_worker(plan.mesh, static_cast<int>(home - held.begin()));
    }
  }
}

}  // namespace smex
