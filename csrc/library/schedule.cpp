#include "smex/schedule.h"

#include <ATen/ATen.h>

#include "vertex/schedule.h"

namespace smex {

void InputGraphs::add(const std::vector<std::vector<int64_t>>& children_of,
                      const std::vector<int64_t>& types_of) {
  const int64_t first = num_vertices();
  for (const std::vector<int64_t>& own : children_of) {
    for (const int64_t child : own) children.push_back(first + child);
    child_offsets.push_back(static_cast<int64_t>(children.size()));
  }
  types.insert(types.end(), types_of.begin(), types_of.end());
  sample_offsets.push_back(num_vertices());
}

at::Tensor VertexSchedule::children_at(const VertexTask& task, int64_t slot) const {
  if (slot >= task.slots) return {};
  return slot_rows.narrow(0, task.slot_begin + slot * task.size(), task.size());
}

VertexSchedule schedule_vertices(const InputGraphs& graphs, const std::vector<int64_t>& slots) {
  const vertex::InputGraphs given{graphs.sample_offsets, graphs.child_offsets, graphs.children,
                                  graphs.types};
  vertex::check(given, std::vector<vertex::Arity>(slots.size()));
  const vertex::Schedule made = vertex::schedule(given, slots, vertex::Policy::kDepth);
  VertexSchedule found;
  for (const vertex::Task& task : made.tasks) {
    found.tasks.push_back({task.type, task.begin, task.end, task.edge_begin, task.edge_end,
                           task.slot_begin, task.slots});
  }
  found.vertices = at::tensor(made.vertices, at::kLong);
  found.rows = at::tensor(made.rows, at::kLong);
  found.roots = at::tensor(made.roots, at::kLong);
  found.edge_offsets = at::tensor(made.edge_offsets, at::kLong);
  found.edge_rows = at::tensor(made.edge_rows, at::kLong);
  found.parents = at::tensor(made.task_parents, at::kLong);
  found.slot_rows = at::tensor(made.slot_rows, at::kLong);
  return found;
}

}  // namespace smex
