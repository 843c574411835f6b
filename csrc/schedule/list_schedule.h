// When tasks run, given which of those that wait for a resource goes first.
#pragma once

#include <span>
#include <vector>

#include "schedule/task_graph.h"

namespace smex::schedule {

struct Schedule {
  std::vector<double> begins, ends;  ///< seconds, by task
  /// By task the one at whose end it begins, one that it waits for or that had a resource of it
  /// before; -1 where it begins at 0.
  std::vector<Task> causes;
  double makespan = 0;

  /// The tasks that follow each other without a gap up to the end of all.
  std::vector<Task> critical_path() const;
  /// All tasks, by when they begin: an order in which `in_order` begins none of them later.
  std::vector<Task> order() const;
};

/// List scheduling (HeteroG, §4.2): whenever a resource becomes free, of the tasks that wait for
/// nothing but resources the one with the highest priority begins that finds all of its resources
/// free, and so on; of equal priorities the one that was added first. No resource is left idle that
/// a task could begin on, so that the makespan is at most the number of used resources times the
/// least that there is (Theorem 1, which counts M devices and M² links).
///
/// O((tasks + dependencies) log tasks) where tasks occupy one resource. Throws UserError unless
/// there is a priority for each task, which is a number.
Schedule by_priority(const TaskGraph& graph, std::span<const double> priorities);

/// First in, first out: of the tasks that wait the one that has waited for the longest time.
Schedule first_come(const TaskGraph& graph);

/// Each resource runs its tasks in the order in which they stand in `order`, idle until the next
/// one can begin: what workers do that run lists. Throws UserError unless each task stands there
/// once, behind those that it waits for.
Schedule in_order(const TaskGraph& graph, std::span<const Task> order);

/// The list schedule by upward ranks, or a shorter one, so that the bound holds: by ranks without a
/// task's own seconds, and by rounds of forward-backward improvement (Li and Willis 1992), in which
/// what ends last goes first in a schedule from the end to the beginning, and what begins first
/// there goes first again, or in just that order, in which resources may wait for what is more
/// urgent. Where that helps no more it begins again nearby. Three rounds, and up to 100 of small
/// graphs; the same for the same graph.
Schedule shortest_of_lists(const TaskGraph& graph);

}  // namespace smex::schedule
