#include "schedule/task_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ir/error.h"

namespace smex::schedule {
namespace {

std::vector<int32_t> checked(std::span<const int32_t> numbers, int32_t count, Task task,
                             const char* what) {
  std::vector<int32_t> result(numbers.begin(), numbers.end());
  for (const int32_t number : result) {
    if (number >= 0 && number < count) continue;
    throw UserError("task " + std::to_string(task) + ": expected " + what + " below " +
                    std::to_string(count) + ", found " + std::to_string(number));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace

TaskGraph::TaskGraph(Resource num_resources) : num_resources_(num_resources) {
  if (num_resources < 0) {
    throw UserError("tasks: expected a number of resources, found " +
                    std::to_string(num_resources));
  }
}

void TaskGraph::Lists::add(std::span<const int32_t> list) {
  items.insert(items.end(), list.begin(), list.end());
  ends.push_back(static_cast<int64_t>(items.size()));
}

Task TaskGraph::add(double seconds, std::span<const Resource> resources,
                    std::span<const Task> after) {
  const Task task = size();
  if (!std::isfinite(seconds) || seconds < 0) {
    throw UserError("task " + std::to_string(task) + ": expected seconds of at least 0, found " +
                    std::to_string(seconds));
  }
  if (task == std::numeric_limits<Task>::max()) throw UserError("tasks: too many of them");
  const auto occupied = checked(resources, num_resources_, task, "a resource");
  const auto waited = checked(after, task, task, "an earlier task");
  resources_.add(occupied);
  before_.add(waited);
  seconds_.push_back(seconds);
  return task;
}

int64_t TaskGraph::num_used_resources() const {
  std::vector<bool> used(num_resources_, false);
  for (const Resource resource : resources_.items) used[resource] = true;
  return std::count(used.begin(), used.end(), true);
}

std::vector<double> TaskGraph::loads() const {
  std::vector<double> result(num_resources_, 0.0);
  for (Task task = 0; task < size(); ++task) {
    for (const Resource resource : resources(task)) result[resource] += seconds(task);
  }
  return result;
}

std::vector<double> upward_ranks(const TaskGraph& graph) {
  // Until a task is reached its entry is the largest rank of what waits for it.
  std::vector<double> ranks(graph.size(), 0.0);
  for (Task task = graph.size(); task-- > 0;) {
    ranks[task] += graph.seconds(task);
    for (const Task earlier : graph.before(task)) {
      ranks[earlier] = std::max(ranks[earlier], ranks[task]);
    }
  }
  return ranks;
}

double least_makespan(const TaskGraph& graph) {
  double least = 0;
  for (const double rank : upward_ranks(graph)) least = std::max(least, rank);
  for (const double load : graph.loads()) least = std::max(least, load);
  return least;
}

}  // namespace smex::schedule
