#include "vertex/schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace smex::vertex {
namespace {

/// The task of each vertex, and the type of each task, in the order to run them in.
struct Assignment {
  std::vector<int64_t> task_of;
  std::vector<int64_t> type_of;
};

Assignment by_depth(const InputGraphs& graphs, std::vector<int64_t> level, int64_t num_types) {
  Assignment result;
  const int64_t highest = level.empty() ? -1 : *std::max_element(level.begin(), level.end());
  std::vector<int64_t> number((highest + 1) * num_types, -1);
  for (size_t v = 0; v < level.size(); ++v) number[level[v] * num_types + graphs.type(v)] = 0;
  for (size_t key = 0; key < number.size(); ++key) {
    if (number[key] < 0) continue;
    number[key] = static_cast<int64_t>(result.type_of.size());
    result.type_of.push_back(static_cast<int64_t>(key) % num_types);
  }
  for (size_t v = 0; v < level.size(); ++v)
    level[v] = number[level[v] * num_types + graphs.type(v)];
  result.task_of = std::move(level);
  return result;
}

/// The parents of each vertex; a vertex that gathers a child twice is there twice.
struct Parents {
  std::vector<int64_t> offsets;
  std::vector<int64_t> ids;

  explicit Parents(const InputGraphs& graphs)
      : offsets(graphs.num_vertices() + 1), ids(graphs.children.size()) {
    for (const int64_t child : graphs.children) ++offsets[child + 1];
    for (size_t v = 1; v < offsets.size(); ++v) offsets[v] += offsets[v - 1];
    std::vector<int64_t> next(offsets.begin(), offsets.end() - 1);
    for (int64_t v = 0; v < graphs.num_vertices(); ++v) {
      for (const int64_t child : graphs.children_of(v)) ids[next[child]++] = v;
    }
  }
};

/// All ready vertices of one type at a time. First a type of which none is left then: one more task
/// is what it needs in any order. Else the type whose waiting vertices are the lowest on average,
/// since others may gain ready vertices from it.
class Agenda {
 public:
  Agenda(const InputGraphs& graphs, std::span<const int64_t> level, int64_t num_types)
      : graphs_(graphs), level_(level), ready_(num_types), sum_(num_types), count_(num_types) {}

  Assignment run() {
    const Parents parents(graphs_);
    const int64_t vertices = graphs_.num_vertices();
    std::vector<int64_t> missing(vertices);
    Assignment result;
    result.task_of.resize(vertices);
    for (int64_t v = 0; v < vertices; ++v) {
      sum_[graphs_.type(v)] += level_[v];
      ++count_[graphs_.type(v)];
      missing[v] = graphs_.num_children(v);
      if (missing[v] == 0) ready_[graphs_.type(v)].push_back(v);
    }
    std::vector<int64_t> now;
    for (int64_t type = next(); type >= 0; type = next()) {
      now.clear();
      now.swap(ready_[type]);
      for (const int64_t v : now) {
        result.task_of[v] = static_cast<int64_t>(result.type_of.size());
        sum_[type] -= level_[v];
        --count_[type];
        for (int64_t i = parents.offsets[v]; i < parents.offsets[v + 1]; ++i) {
          const int64_t parent = parents.ids[i];
          if (--missing[parent] == 0) ready_[graphs_.type(parent)].push_back(parent);
        }
      }
      result.type_of.push_back(type);
    }
    return result;
  }

 private:
  int64_t next() const {
    int64_t best = -1;
    double best_level = std::numeric_limits<double>::infinity();
    for (size_t type = 0; type < ready_.size(); ++type) {
      if (ready_[type].empty()) continue;
      if (static_cast<int64_t>(ready_[type].size()) == count_[type])
        return static_cast<int64_t>(type);
      const double level = static_cast<double>(sum_[type]) / static_cast<double>(count_[type]);
      if (level >= best_level) continue;
      best = static_cast<int64_t>(type);
      best_level = level;
    }
    return best;
  }

  const InputGraphs& graphs_;
  std::span<const int64_t> level_;
  std::vector<std::vector<int64_t>> ready_;
  std::vector<int64_t> sum_, count_;  // levels and number of the vertices that wait, by type
};

/// Vertices by task, in their order; those of task t from `offsets[t]`.
struct TaskVertices {
  std::vector<int64_t> offsets, ids;

  template <typename Includes>
  TaskVertices(const Assignment& assignment, const Includes& includes)
      : offsets(assignment.type_of.size() + 1) {
    const std::vector<int64_t>& task_of = assignment.task_of;
    for (size_t v = 0; v < task_of.size(); ++v) {
      if (includes(v)) ++offsets[task_of[v] + 1];
    }
    for (size_t t = 1; t < offsets.size(); ++t) offsets[t] += offsets[t - 1];
    ids.resize(offsets.back());
    std::vector<int64_t> next(offsets.begin(), offsets.end() - 1);
    for (size_t v = 0; v < task_of.size(); ++v) {
      if (includes(v)) ids[next[task_of[v]]++] = static_cast<int64_t>(v);
    }
  }

  std::span<const int64_t> of(size_t task) const {
    return std::span(ids).subspan(offsets[task], offsets[task + 1] - offsets[task]);
  }
};

/// Whether vertices of several types have children.
bool several_types_have_children(const InputGraphs& graphs) {
  int64_t found = -1;
  for (int64_t v = 0; v < graphs.num_vertices(); ++v) {
    if (graphs.num_children(v) == 0) continue;
    if (found >= 0 && graphs.type(v) != found) return true;
    found = graphs.type(v);
  }
  return false;
}

/// The same tasks, those first that wait for the shortest series of others: tasks that can run
/// beside each other follow one another.
Assignment by_wait(const InputGraphs& graphs, const Assignment& assignment) {
  const size_t num_tasks = assignment.type_of.size();
  const TaskVertices vertices(assignment, [](size_t) { return true; });
  std::vector<int64_t> wait(num_tasks);
  for (size_t t = 0; t < num_tasks; ++t) {
    for (const int64_t v : vertices.of(t)) {
      for (const int64_t child : graphs.children_of(v)) {
        wait[t] = std::max(wait[t], wait[assignment.task_of[child]] + 1);
      }
    }
  }
  std::vector<size_t> order(num_tasks);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return wait[a] < wait[b]; });
  std::vector<int64_t> number(num_tasks);
  Assignment result;
  for (const size_t task : order) {
    number[task] = static_cast<int64_t>(result.type_of.size());
    result.type_of.push_back(assignment.type_of[task]);
  }
  for (const int64_t task : assignment.task_of) result.task_of.push_back(number[task]);
  return result;
}

/// Gives each task its rows: type after type, and within a type task after task.
void place_tasks(const Assignment& assignment, int64_t num_types, Schedule& result) {
  const size_t num_tasks = assignment.type_of.size();
  std::vector<int64_t> size(num_tasks);
  for (const int64_t task : assignment.task_of) ++size[task];
  result.type_rows.assign(num_types + 1, 0);
  for (size_t t = 0; t < num_tasks; ++t) result.type_rows[assignment.type_of[t] + 1] += size[t];
  for (int64_t type = 0; type < num_types; ++type)
    result.type_rows[type + 1] += result.type_rows[type];
  std::vector<int64_t> next(result.type_rows.begin(), result.type_rows.end() - 1);
  result.tasks.resize(num_tasks);
  for (size_t t = 0; t < num_tasks; ++t) {
    Task& task = result.tasks[t];
    task.type = assignment.type_of[t];
    task.begin = next[task.type];
    task.end = next[task.type] += size[t];
  }
}

/// Numbers the vertices. From the last task to the first, so that children can be given rows in
/// the order in which their parents, whose rows are known by then, gather them.
void place_vertices(const InputGraphs& graphs, const Assignment& assignment, Schedule& result) {
  const int64_t vertices = graphs.num_vertices();
  result.vertices.resize(vertices);
  result.rows.assign(vertices, -1);
  std::vector<int64_t> next(result.tasks.size());
  for (size_t t = 0; t < next.size(); ++t) next[t] = result.tasks[t].begin;
  const auto place = [&](int64_t vertex) {
    const int64_t row = next[assignment.task_of[vertex]]++;
    result.rows[vertex] = row;
    result.vertices[row] = vertex;
  };
  std::vector<bool> has_parent(vertices);
  for (const int64_t child : graphs.children) has_parent[child] = true;
  const TaskVertices roots(assignment, [&](size_t v) { return !has_parent[v]; });
  std::vector<int64_t> by_slot;
  for (size_t t = next.size(); t-- > 0;) {
    const Task& task = result.tasks[t];
    for (const int64_t root : roots.of(t)) place(root);
    if (t == 0) break;  // nothing comes before the first task
    // Rows that still have a child at the slot, slot after slot.
    by_slot.assign(result.vertices.begin() + task.begin, result.vertices.begin() + task.end);
    for (int64_t slot = 0; !by_slot.empty(); ++slot) {
      std::erase_if(by_slot, [&](int64_t v) { return graphs.num_children(v) <= slot; });
      for (const int64_t v : by_slot) {
        const int64_t child = graphs.children_of(v)[slot];
        if (result.rows[child] < 0) place(child);
      }
    }
  }
  result.roots.reserve(roots.ids.size());
  for (int64_t v = 0; v < vertices; ++v) {
    if (!has_parent[v]) result.roots.push_back(result.rows[v]);
  }
}

void list_edges(const InputGraphs& graphs, Schedule& result) {
  result.edge_offsets.reserve(result.vertices.size() + 1);
  result.edge_rows.reserve(graphs.children.size());
  for (const int64_t v : result.vertices) {
    result.edge_offsets.push_back(static_cast<int64_t>(result.edge_rows.size()));
    for (const int64_t child : graphs.children_of(v))
      result.edge_rows.push_back(result.rows[child]);
  }
  result.edge_offsets.push_back(static_cast<int64_t>(result.edge_rows.size()));
}

void list_parents(Schedule& result) {
  const size_t vertices = result.vertices.size(), edges = result.edge_rows.size();
  result.counts.resize(vertices);
  result.parents.resize(edges);
  result.task_parents.resize(edges);
  for (const Task& task : result.tasks) {
    const int64_t first_of_type = result.type_rows[task.type];
    for (int64_t row = task.begin; row < task.end; ++row) {
      const int64_t begin = result.edge_offsets[row], end = result.edge_offsets[row + 1];
      result.counts[row] = end - begin;
      std::fill(result.parents.begin() + begin, result.parents.begin() + end, row - first_of_type);
      std::fill(result.task_parents.begin() + begin, result.task_parents.begin() + end,
                row - task.begin);
    }
  }
}

/// The first of consecutive rows, or -1.
int64_t first_of_contiguous(std::span<const int64_t> rows, int64_t absent) {
  if (rows.empty() || rows.back() == absent) return -1;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return -1;
  }
  return rows.front();
}

void list_slots(std::span<const int64_t> slots, Schedule& result) {
  const auto absent = static_cast<int64_t>(result.vertices.size());
  int64_t total = 0;
  for (Task& task : result.tasks) {
    task.edge_begin = result.edge_offsets[task.begin];
    task.edge_end = result.edge_offsets[task.end];
    for (int64_t row = task.begin; row < task.end; ++row)
      task.slots = std::max(task.slots, result.edge_offsets[row + 1] - result.edge_offsets[row]);
    task.slots = std::min(task.slots, slots[task.type]);
    task.slot_begin = total;
    total += task.slots * task.size();
  }
  result.slot_rows.reserve(total);  // the largest array: to grow it would cost as much as to fill
  for (const Task& task : result.tasks) {
    for (int64_t slot = 0; slot < task.slots; ++slot) {
      for (int64_t row = task.begin; row < task.end; ++row) {
        const int64_t edge = result.edge_offsets[row] + slot;
        result.slot_rows.push_back(edge < result.edge_offsets[row + 1] ? result.edge_rows[edge]
                                                                       : absent);
      }
      result.slot_first.push_back(first_of_contiguous(
          std::span(result.slot_rows).subspan(task.slot_begin + slot * task.size()), absent));
    }
  }
}

}  // namespace

Schedule schedule(const InputGraphs& graphs, std::span<const int64_t> slots, Policy policy) {
  const auto num_types = static_cast<int64_t>(slots.size());
  std::vector<int64_t> level = levels(graphs);
  Assignment assignment = policy == Policy::kReadiness && num_types > 1
                              ? Agenda(graphs, level, num_types).run()
                              : by_depth(graphs, std::move(level), num_types);
  Schedule result;
  result.has_stages = several_types_have_children(graphs);
  if (result.has_stages) assignment = by_wait(graphs, assignment);
  place_tasks(assignment, num_types, result);
  place_vertices(graphs, assignment, result);
  list_edges(graphs, result);
  list_parents(result);
  list_slots(slots, result);
  return result;
}

std::vector<size_t> stages(const Schedule& schedule) {
  std::vector<size_t> task_of(schedule.vertices.size());
  for (size_t t = 0; t < schedule.tasks.size(); ++t) {
    const Task& task = schedule.tasks[t];
    std::fill(task_of.begin() + task.begin, task_of.begin() + task.end, t);
  }
  std::vector<size_t> begins;
  std::vector<bool> has_type(schedule.type_rows.size());  // in the stage that goes on
  for (size_t t = 0; t < schedule.tasks.size(); ++t) {
    const Task& task = schedule.tasks[t];
    const auto children =
        std::span(schedule.edge_rows).subspan(task.edge_begin, task.edge_end - task.edge_begin);
    const bool waits = begins.empty() || has_type[task.type] ||
                       std::any_of(children.begin(), children.end(),
                                   [&](int64_t child) { return task_of[child] >= begins.back(); });
    if (waits) {
      begins.push_back(t);
      has_type.assign(has_type.size(), false);
    }
    has_type[task.type] = true;
  }
  begins.push_back(schedule.tasks.size());
  return begins;
}

std::vector<int64_t> edge_begins(const Schedule& schedule) {
  std::vector<int64_t> begins(schedule.edge_rows.size());
  for (const Task& task : schedule.tasks) {
    std::fill(begins.begin() + task.edge_begin, begins.begin() + task.edge_end, task.edge_begin);
  }
  return begins;
}

std::vector<int64_t> slot_begins(const Schedule& schedule) {
  std::vector<int64_t> begins(schedule.slot_rows.size());
  for (const Task& task : schedule.tasks) {
    for (int64_t slot = 0; slot < task.slots; ++slot) {
      const int64_t first = task.slot_begin + slot * task.size();
      std::fill_n(begins.begin() + first, task.size(), first);
    }
  }
  return begins;
}

}  // namespace smex::vertex
