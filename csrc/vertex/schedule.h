// What is computed together, and where it lies (Cavs §3; DyNet's agenda for several types:
// Neubig et al. 2017, On-the-fly operation batching, §3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vertex/input_graphs.h"

namespace smex::vertex {

/// Vertices that are evaluated together: of one type, and none waits for another.
struct Task {
  int64_t type = 0;
  int64_t begin = 0, end = 0;            ///< rows
  int64_t edge_begin = 0, edge_end = 0;  ///< edges to their children, see Schedule::edge_rows
  int64_t slot_begin = 0;                ///< of the task's part of Schedule::slot_rows
  int64_t slots = 0;                     ///< argument positions that some vertex has a child at

  int64_t size() const { return end - begin; }
};

/// How vertices are put together: all of one level and type, or all of one type that are ready.
/// The same for one type; for several, waiting until more are ready makes fewer tasks.
enum class Policy : uint8_t { kDepth, kReadiness };

/// Rows are the vertices renumbered: those of a task are contiguous, and so are all those of a
/// type, task after task. Within a task they lie as their parents gather them, as far as several
/// parents agree: the children of a batch of chains or of complete trees are contiguous too.
struct Schedule {
  std::vector<Task> tasks;            ///< in the order to run them in
  std::vector<int64_t> vertices;      ///< [vertices], the vertex of each row
  std::vector<int64_t> rows;          ///< [vertices], the row of each vertex
  std::vector<int64_t> type_rows;     ///< [types + 1], the first row of each type
  std::vector<int64_t> roots;         ///< rows of the vertices without parents, by vertex
  std::vector<int64_t> edge_offsets;  ///< [vertices + 1], the first edge of each row
  std::vector<int64_t> counts;        ///< [vertices], how many children each row has
  std::vector<int64_t> edge_rows;     ///< [edges], the children's rows
  std::vector<int64_t> parents;       ///< [edges], the parent's row, counted within its type
  std::vector<int64_t> task_parents;  ///< [edges], the same within its task
  /// For each task [slots, rows]: the rows of the children at each argument position, or the number
  /// of vertices where there is no child.
  std::vector<int64_t> slot_rows;
  /// For each task and slot, task after task: the first row if the children lie in contiguous rows
  /// in the order of the task's, else -1.
  std::vector<int64_t> slot_first;
  bool has_stages = false;  ///< several types have children: tasks may run beside each other
};

/// The schedule of checked graphs. `slots[type]` is the number of argument positions that the
/// type's function reads one by one: slot rows beyond are not listed.
/// Linear in vertices and edges, and for kReadiness tasks times types. Deterministic.
Schedule schedule(const InputGraphs& graphs, std::span<const int64_t> slots, Policy policy);

/// The first task of each stage, and the number of tasks behind the last: consecutive tasks of
/// different types, none of which reads another's vertices. Linear in edges.
std::vector<size_t> stages(const Schedule& schedule);

/// By edge the first one of its task.
std::vector<int64_t> edge_begins(const Schedule& schedule);

/// By element of `slot_rows` the first one of its task and argument position.
std::vector<int64_t> slot_begins(const Schedule& schedule);

}  // namespace smex::vertex
