#include "partition/search/rules.h"

#include <algorithm>
#include <map>

#include "ir/error.h"
#include "partition/search/search.h"

namespace smex {

namespace {

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

}  // namespace

const Rules& rules_of(const std::string& planner) {
  const auto found = all_rules().find(planner);
  if (found != all_rules().end()) return found->second;
  std::string known;
  for (const std::string& name : planners()) known += (known.empty() ? "" : ", ") + name;
  throw UserError("search: unknown planner \"" + planner + "\"; known are " + known);
}

const std::vector<std::string>& planners() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, rules] : all_rules()) all.push_back(name);
    return all;
  }();
  return names;
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
