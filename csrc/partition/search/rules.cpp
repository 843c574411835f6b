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

void shard_parameters(const Graph& graph, const std::map<ValueId, Choices>& pinned, Plan& plan) {
  const auto shard = [&](ValueId id) {
    if (pinned.count(id)) return;
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
    if (output.target != kNoValue && !pinned.count(output.target) &&
        graph.value(output.target).role == Role::kParameter) {
      shard(output.value);
    }
  }
}

}  // namespace smex
