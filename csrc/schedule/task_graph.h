// Work that takes time on resources: what schedules are made of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smex::schedule {

/// A number below the number of tasks, or of resources.
using Task = int32_t;
using Resource = int32_t;

/// Tasks that wait for others, each with the seconds that it takes and the resources that it
/// occupies meanwhile, all at once: a device for an operator's call, a directed link for a
/// transfer, or both of its ends, all devices of a collective. A resource does one task at a time.
/// Tasks without resources wait for nothing but other tasks.
class TaskGraph {
 public:
  /// Throws UserError for a negative number.
  explicit TaskGraph(Resource num_resources);

  /// Adds a task that begins when those of `after`, which were added before, have ended. Throws
  /// UserError, and adds nothing, where the time is negative or not finite, or a number is none of
  /// a resource or of an earlier task; names listed twice count once.
  Task add(double seconds, std::span<const Resource> resources, std::span<const Task> after);

  Task size() const { return static_cast<Task>(seconds_.size()); }
  Resource num_resources() const { return num_resources_; }
  double seconds(Task task) const { return seconds_[task]; }
  std::span<const Resource> resources(Task task) const { return resources_.of(task); }
  /// What a task waits for.
  std::span<const Task> before(Task task) const { return before_.of(task); }

  /// Resources that some task occupies.
  int64_t num_used_resources() const;
  /// Seconds that each resource's tasks take together: [num_resources].
  std::vector<double> loads() const;

 private:
  /// A list for each task, one after the other.
  struct Lists {
    std::vector<int64_t> ends;
    std::vector<int32_t> items;

    void add(std::span<const int32_t> list);
    std::span<const int32_t> of(Task task) const {
      const int64_t begin = task == 0 ? 0 : ends[task - 1];
      return {items.data() + begin, static_cast<size_t>(ends[task] - begin)};
    }
  };

  Resource num_resources_;
  std::vector<double> seconds_;
  Lists resources_, before_;
};

/// By task its seconds and the longest way of seconds through what waits for it, to the end of all:
/// HeteroG, §4.2; HEFT (Topcuoglu et al. 2002) where transfers are tasks of their own. O(tasks and
/// dependencies).
std::vector<double> upward_ranks(const TaskGraph& graph);

/// What no schedule ends before: the longest way, or the resource with the most to do.
double least_makespan(const TaskGraph& graph);

}  // namespace smex::schedule
