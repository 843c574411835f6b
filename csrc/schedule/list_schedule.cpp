#include "schedule/list_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <random>
#include <string>
#include <utility>

#include "ir/error.h"

namespace smex::schedule {
namespace {

/// What comes first among tasks that wait: the highest priority, then the lowest number.
struct Waiting {
  double priority;
  Task task;

  bool operator<(const Waiting& other) const {  // for heaps, whose top is the largest
    return priority != other.priority ? priority < other.priority : task > other.task;
  }
};

struct Ending {
  double at;
  Task task;

  bool operator>(const Ending& other) const {
    return at != other.at ? at > other.at : task > other.task;
  }
};

/// Runs tasks in time. Each one that is ready stands in the heap of one resource that it needs: of
/// one that is occupied if there is any, so that it is looked at again only when that is free.
class Run {
 public:
  explicit Run(const TaskGraph& graph)
      : graph_(graph),
        missing_(graph.size()),
        occupied_(graph.num_resources(), false),
        last_(graph.num_resources(), -1),
        heaps_(graph.num_resources()) {
    result_.begins.assign(graph.size(), 0.0);
    result_.ends.assign(graph.size(), 0.0);
    result_.causes.assign(graph.size(), -1);
    std::vector<int64_t> counts(graph.size() + 1, 0);
    for (Task task = 0; task < graph.size(); ++task) {
      missing_[task] = static_cast<int64_t>(graph.before(task).size());
      for (const Task earlier : graph.before(task)) ++counts[earlier + 1];
    }
    std::partial_sum(counts.begin(), counts.end(), counts.begin());
    after_begin_ = counts;
    after_.resize(counts.back());
    for (Task task = 0; task < graph.size(); ++task) {
      for (const Task earlier : graph.before(task)) after_[counts[earlier]++] = task;
    }
  }

  /// `priority(task)` is asked when a task becomes ready.
  template <typename Priority>
  Schedule run(const Priority& priority) {
    for (Task task = 0; task < graph_.size(); ++task) {
      if (missing_[task] == 0) make_ready(task, priority(task));
    }
    begin_all();
    while (!endings_.empty()) {
      now_ = endings_.top().at;
      while (!endings_.empty() && endings_.top().at == now_) {
        const Task task = endings_.top().task;
        endings_.pop();
        for (const Resource resource : graph_.resources(task)) release(resource);
        for (int64_t i = after_begin_[task]; i < after_begin_[task + 1]; ++i) {
          const Task next = after_[i];
          result_.causes[next] = task;  // the last one that it waits for stays
          if (--missing_[next] == 0) make_ready(next, priority(next));
        }
      }
      begin_all();
    }
    result_.makespan = now_;
    return std::move(result_);
  }

 private:
  void make_ready(Task task, double priority) {
    if (graph_.resources(task).empty()) {
      begin(task);
    } else {
      wait({priority, task}, graph_.resources(task)[0]);
    }
  }

  /// Lets a task wait at an occupied resource, or at `free` where there is none.
  void wait(const Waiting& waiting, Resource free) {
    Resource at = free;
    for (const Resource resource : graph_.resources(waiting.task)) {
      if (occupied_[resource]) at = resource;
    }
    heaps_[at].push(waiting);
    if (!occupied_[at]) candidates_.push({heaps_[at].top(), at});
  }

  void release(Resource resource) {
    occupied_[resource] = false;
    if (!heaps_[resource].empty()) candidates_.push({heaps_[resource].top(), resource});
  }

  /// Begins what can begin now, the first ones first.
  void begin_all() {
    while (!candidates_.empty()) {
      const auto [waiting, resource] = candidates_.top();
      candidates_.pop();
      auto& heap = heaps_[resource];
      const bool is_stale = occupied_[resource] || heap.empty() || heap.top().task != waiting.task;
      if (is_stale) continue;  // another candidate stands for what is there now
      heap.pop();
      if (can_begin(waiting.task)) {
        begin(waiting.task);
      } else {
        wait(waiting, resource);
      }
      if (!occupied_[resource] && !heap.empty()) candidates_.push({heap.top(), resource});
    }
  }

  bool can_begin(Task task) const {
    const auto resources = graph_.resources(task);
    return std::none_of(resources.begin(), resources.end(),
                        [&](Resource resource) { return occupied_[resource]; });
  }

  void begin(Task task) {
    for (const Resource resource : graph_.resources(task)) {
      occupied_[resource] = true;
      const Task before = last_[resource];
      if (before >= 0 && result_.ends[before] == now_) result_.causes[task] = before;
      last_[resource] = task;
    }
    result_.begins[task] = now_;
    result_.ends[task] = now_ + graph_.seconds(task);
    endings_.push({result_.ends[task], task});
  }

  using Candidate = std::pair<Waiting, Resource>;

  const TaskGraph& graph_;
  Schedule result_;
  double now_ = 0;
  std::vector<int64_t> missing_;  // tasks that each one still waits for
  std::vector<int64_t> after_begin_;
  std::vector<Task> after_;
  std::vector<bool> occupied_;
  std::vector<Task> last_;  // on each resource
  std::vector<std::priority_queue<Waiting>> heaps_;
  std::priority_queue<Candidate> candidates_;  // tops of the heaps of free resources
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings_;
};

/// All tasks by a number, the largest first, and where it is equal in their order.
std::vector<Task> by_decreasing(const std::vector<double>& numbers) {
  std::vector<Task> tasks(numbers.size());
  std::iota(tasks.begin(), tasks.end(), 0);
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](Task a, Task b) { return numbers[a] > numbers[b]; });
  return tasks;
}

/// The same tasks from the last to the first, each waiting for those that waited for it.
TaskGraph reversed(const TaskGraph& graph) {
  const Task last = graph.size() - 1;
  std::vector<std::vector<Task>> after(graph.size());
  for (Task task = 0; task < graph.size(); ++task) {
    for (const Task earlier : graph.before(task)) after[earlier].push_back(last - task);
  }
  TaskGraph result(graph.num_resources());
  for (Task task = last; task >= 0; --task) {
    result.add(graph.seconds(task), graph.resources(task), after[task]);
  }
  return result;
}

}  // namespace

std::vector<Task> Schedule::critical_path() const {
  std::vector<Task> path;
  const auto last = std::max_element(ends.begin(), ends.end());
  if (last == ends.end()) return path;
  for (auto task = static_cast<Task>(last - ends.begin()); task >= 0; task = causes[task]) {
    path.push_back(task);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<Task> Schedule::order() const {
  std::vector<Task> tasks(begins.size());
  std::iota(tasks.begin(), tasks.end(), 0);
  // Tasks of no seconds begin when what they wait for does.
  std::stable_sort(tasks.begin(), tasks.end(), [&](Task a, Task b) {
    return begins[a] != begins[b] ? begins[a] < begins[b] : ends[a] < ends[b];
  });
  return tasks;
}

Schedule by_priority(const TaskGraph& graph, std::span<const double> priorities) {
  if (priorities.size() != static_cast<size_t>(graph.size())) {
    throw UserError("priorities: expected one for each of the " + std::to_string(graph.size()) +
                    " tasks, found " + std::to_string(priorities.size()));
  }
  for (size_t task = 0; task < priorities.size(); ++task) {
    if (!std::isnan(priorities[task])) continue;
    throw UserError("priorities: expected a number for task " + std::to_string(task) +
                    ", found nan");
  }
  return Run(graph).run([&](Task task) { return priorities[task]; });
}

Schedule first_come(const TaskGraph& graph) {
  double turn = 0;
  return Run(graph).run([&](Task) { return turn--; });
}

Schedule in_order(const TaskGraph& graph, std::span<const Task> order) {
  if (order.size() != static_cast<size_t>(graph.size())) {
    throw UserError("order: expected the " + std::to_string(graph.size()) + " tasks, found " +
                    std::to_string(order.size()));
  }
  Schedule result;
  result.begins.assign(graph.size(), 0.0);
  result.ends.assign(graph.size(), 0.0);
  result.causes.assign(graph.size(), -1);
  std::vector<bool> has_run(graph.size(), false);
  std::vector<Task> last(graph.num_resources(), -1);
  for (const Task task : order) {
    if (task < 0 || task >= graph.size() || has_run[task]) {
      throw UserError("order: expected each task once, found " + std::to_string(task) +
                      (task < 0 || task >= graph.size() ? "" : " twice"));
    }
    has_run[task] = true;
    const auto follow = [&](Task earlier) {
      if (earlier < 0) return;
      if (!has_run[earlier]) {
        throw UserError("order: task " + std::to_string(task) + " stands before " +
                        std::to_string(earlier) + ", which it waits for");
      }
      if (result.causes[task] >= 0 && result.ends[earlier] <= result.begins[task]) return;
      result.causes[task] = earlier;
      result.begins[task] = std::max(result.begins[task], result.ends[earlier]);
    };
    for (const Task earlier : graph.before(task)) follow(earlier);
    for (const Resource resource : graph.resources(task)) {
      follow(last[resource]);
      last[resource] = task;
    }
    result.ends[task] = result.begins[task] + graph.seconds(task);
    result.makespan = std::max(result.makespan, result.ends[task]);
  }
  return result;
}

Schedule shortest_of_lists(const TaskGraph& graph) {
  constexpr int64_t kTasks = 6000;  // in rounds of small graphs
  constexpr int64_t kPatience = 2;
  constexpr double kNearby = 0.8;
  const std::vector<double> ranks = upward_ranks(graph);
  const double least = least_makespan(graph);
  Schedule best = by_priority(graph, ranks);
  if (best.makespan <= least) return best;
  std::vector<double> behind = ranks;
  for (Task task = 0; task < graph.size(); ++task) behind[task] -= graph.seconds(task);
  if (Schedule other = by_priority(graph, behind); other.makespan < best.makespan) {
    best = std::move(other);
  }
  const TaskGraph backwards = reversed(graph);
  const int64_t rounds = std::clamp<int64_t>(kTasks / std::max<Task>(1, graph.size()), 3, 100);
  std::mt19937 random(1);  // the same for the same graph
  std::vector<double> ends = best.ends;
  int64_t since_better = 0;
  for (int64_t round = 0; round < rounds && best.makespan > least; ++round, ++since_better) {
    std::reverse(ends.begin(), ends.end());  // the tasks of a reversed graph are
    std::vector<double> first = by_priority(backwards, ends).ends;
    std::reverse(first.begin(), first.end());
    Schedule other = by_priority(graph, first);
    Schedule waiting = in_order(graph, by_decreasing(first));
    if (waiting.makespan < other.makespan) other = std::move(waiting);
    ends = other.ends;
    if (other.makespan < best.makespan) {
      best = std::move(other);
      since_better = 0;
    }
    if (since_better < kPatience) continue;
    since_better = 0;  // go on from nearby
    ends = best.ends;
    for (double& end : ends) end *= 1 + kNearby * static_cast<double>(random()) / random.max();
  }
  return best;
}

}  // namespace smex::schedule
