#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "runtime/vertex/calls.h"
#include "vertex/schedule.h"

namespace smex::runtime {

/// A schedule, and its index arrays on the device that runs it. The types that it tells apart are
/// kinds of vertices, each with a program of its own.
struct TaskPlan {
  TaskPlan(std::shared_ptr<const vertex::Schedule> schedule, at::Tensor edge_rows,
           at::Tensor parents, at::Tensor slot_rows, at::Tensor edge_orders,
           at::Tensor slot_orders);

  const vertex::Task& task(size_t number) const { return schedule->tasks[number]; }
  /// The first row of a task's kind, and the first edge.
  int64_t first_row(const vertex::Task& task) const { return schedule->type_rows[task.type]; }
  int64_t first_edge(const vertex::Task& task) const {
    return schedule->edge_offsets[first_row(task)];
  }

  const std::shared_ptr<const vertex::Schedule> schedule;
  const at::Tensor edge_rows, parents, slot_rows;  ///< as in the schedule, parents within the task
  const at::Tensor edge_orders, slot_orders;  ///< undefined where gradients are added in series
  std::vector<size_t> first_slots;            ///< by task: of its own among `slot_first`
  std::vector<int64_t> degrees;               ///< by kind: children of each row; -1: they differ
  std::vector<size_t> stages;                 ///< of the schedule; empty: one kind has children
};

/// The states of all vertices, or their gradients: a row for each, and one that stands for no
/// child.
using StateRows = at::Tensor;

/// What a kind of vertices computes task by task, forward or backward.
class TaskLoop {
 public:
  /// An argument of the calls: what it is of a task.
  struct Column {
    enum class Kind {
      kWhole,    ///< a value as it is
      kRows,     ///< a task's rows of a value of the whole kind
      kEdges,    ///< its edges'
      kScratch,  ///< as many rows as it has of memory for the largest task
      kScratchOfEdges,
      kParents,  ///< by edge the row of the parent
      kGather,   ///< the states of the children at an argument position, `slot`
      kEach,     ///< of all children, edge by edge
      kBeside,   ///< of the first `slot` children, side by side
    };
    Kind kind = Kind::kWhole;
    c10::IValue value;
    int64_t dim = 0, per = 1;  ///< elements of a dimension for each row or edge
    int64_t slot = 0;
  };

  /// What becomes of a result.
  struct Sink {
    enum class Kind {
      kSum,   ///< it is added to those of the other tasks
      kSlot,  ///< to the gradients of the children at an argument position
      kEach,  ///< of all children
    };
    Kind kind = Kind::kSum;
    StateRows grads;
    int64_t slot = 0;
  };

  /// States that are the same value: the second gets the rows of the first.
  struct Twins {
    StateRows from, to;
  };

  /// A sink for each result of the calls and each tensor that it is added to.
  TaskLoop(std::shared_ptr<const Calls> calls, std::vector<Column> columns,
           std::vector<std::vector<Sink>> sinks, std::vector<Twins> twins);

  using Results = std::vector<c10::IValue>;

  /// Computes a task, of which no other is running; writes only what is its own.
  Results compute(const TaskPlan& plan, size_t task);

  /// Adds the results to what tasks of several kinds share: the gradients of children.
  void add_results(const TaskPlan& plan, size_t task, const Results& results) const;

  /// The multiplications of a task, from the sizes of what its calls are given: matrices multiply
  /// all rows, other values are read once.
  double work(const vertex::Task& task) const;

  /// Whether it may run beside those of other kinds: on a CPU, with no random numbers.
  bool may_run_beside() const { return may_run_beside_; }

  /// By result what it sums up to over the tasks so far; undefined where it is none, or before the
  /// first.
  const std::vector<at::Tensor>& sums() const { return sums_; }

 private:
  void find_work();

  const std::shared_ptr<const Calls> calls_;
  const std::vector<Column> columns_;
  const std::vector<std::vector<Sink>> sinks_;
  const std::vector<Twins> twins_;
  std::vector<at::Tensor> sums_;
  double work_of_row_ = 0, work_of_edge_ = 0;
  bool may_run_beside_ = true;
};

/// Runs the tasks of a schedule, each by the loop of its kind; kinds without one compute nothing
/// task by task. On several threads of a CPU, tasks of one stage run beside each other; what they
/// add up, they add in the order of the tasks.
class Tasks {
 public:
  /// `beside`: tasks may run beside each other.
  Tasks(std::shared_ptr<const TaskPlan> plan, std::vector<std::shared_ptr<TaskLoop>> loops,
        bool beside);

  /// Tasks number `begin` up to `end` of the schedule, the last first where `backward`.
  void run(size_t begin, size_t end, bool backward);

  /// The kind whose task runs, or has run last, also where it threw.
  int64_t running() const { return running_; }

 private:
  void run_in_turn(std::span<const size_t> numbers);
  void run_beside(std::span<const size_t> numbers,
                  const std::vector<std::vector<size_t>>& of_threads);
  std::vector<std::vector<size_t>> divided(std::span<const size_t> numbers) const;

  const std::shared_ptr<const TaskPlan> plan_;
  const std::vector<std::shared_ptr<TaskLoop>> loops_;  ///< by kind
  const bool beside_;
  int64_t running_ = 0;
};

}  // namespace smex::runtime
