#include "partition/memory.h"

#include <algorithm>

#include "partition/dim_classes.h"
#include "partition/grid.h"

namespace smex {

MemoryPoint heaviest_point(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  const auto count = static_cast<OpId>(graph.ops().size());
  std::vector<OpId> first(graph.values().size(), 0), last(first);
  for (const Value& value : graph.values()) {
    const bool stays = value.role == Role::kParameter || value.role == Role::kBuffer ||
                       value.role == Role::kConstant;
    if (value.producer >= 0) first[value.id] = value.producer;
    last[value.id] = stays ? count - 1 : first[value.id];
  }
  for (const Op& op : graph.ops()) {
    for (ValueId input : op.inputs) last[input] = std::max(last[input], op.id);
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) last[output.value] = count - 1;
  }
  std::vector<int64_t> change(graph.ops().size() + 1, 0);
  for (const Value& value : graph.values()) {
    const Grid home =
        home_grid(value.shape, classes.granules(value.id), plan.values[value.id], plan.mesh);
    const int64_t bytes = largest_numel(home) * value.itemsize;
    change[first[value.id]] += bytes;
    change[last[value.id] + 1] -= bytes;
  }
  MemoryPoint point;
  int64_t live = 0;
  for (OpId op = 0; op < count; ++op) {
    live += change[op];
    if (live > point.bytes) {
      point.bytes = live;
      point.op = op;
    }
  }
  for (const Value& value : graph.values()) {
    if (first[value.id] <= point.op && point.op <= last[value.id]) point.live.push_back(value.id);
  }
  return point;
}

}  // namespace smex
