#include "runtime/vertex/tasks.h"

#include <ATen/DimVector.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "ir/error.h"
#include "vertex/beside.h"

namespace smex::runtime {
namespace {

using vertex::Task;
using Column = TaskLoop::Column;

/// `narrow`, in a tenth of its time where the memory is plain: a task has many parts of tensors.
at::Tensor part_of(const at::Tensor& whole, int64_t dim, int64_t begin, int64_t size) {
  const c10::TensorImpl& impl = *whole.unsafeGetTensorImpl();
  const bool is_plain = impl.layout() == at::kStrided && !impl.is_python_dispatch() &&
                        !impl.has_symbolic_sizes_strides() && impl.has_storage();
  if (!is_plain || begin < 0 || size < 0 || begin + size > whole.size(dim)) {
    return whole.narrow(dim, begin, size);  // which tells what is wrong
  }
  at::DimVector sizes(whole.sizes());
  sizes[dim] = size;
  at::Tensor part = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(whole.storage()), whole.key_set(), whole.dtype());
  part.unsafeGetTensorImpl()->set_sizes_and_strides(
      sizes, whole.strides(), whole.storage_offset() + begin * whole.stride(dim));
  return part;
}

/// Where the children at an argument position lie: contiguous rows, or listed ones.
struct SlotPlace {
  int64_t first = -1;
  at::Tensor rows, order;
};

/// Of a position at which a task has children.
SlotPlace place_of(const TaskPlan& plan, size_t number, int64_t slot) {
  const Task& task = plan.task(number);
  SlotPlace place;
  place.first = plan.schedule->slot_first[plan.first_slots[number] + slot];
  if (place.first >= 0) return place;
  const int64_t begin = task.slot_begin + slot * task.size();
  place.rows = part_of(plan.slot_rows, 0, begin, task.size());
  if (plan.slot_orders.defined()) place.order = part_of(plan.slot_orders, 0, begin, task.size());
  return place;
}

at::Tensor edges_of(const at::Tensor& by_edge, const Task& task) {
  return part_of(by_edge, 0, task.edge_begin, task.edge_end - task.edge_begin);
}

at::Tensor gathered(const TaskPlan& plan, size_t number, const StateRows& states, int64_t slot) {
  const Task& task = plan.task(number);
  if (slot >= task.slots) {
    std::vector<int64_t> shape = states.sizes().vec();
    shape[0] = task.size();
    return states.new_zeros(shape);
  }
  const SlotPlace place = place_of(plan, number, slot);
  return place.first >= 0 ? part_of(states, 0, place.first, task.size())
                          : states.index_select(0, place.rows);
}

at::Tensor beside(const TaskPlan& plan, size_t number, const StateRows& states, int64_t slots) {
  const Task& task = plan.task(number);
  const auto first = plan.schedule->slot_first.begin() + plan.first_slots[number];
  const bool is_contiguous =
      std::all_of(first, first + task.slots, [](int64_t row) { return row >= 0; });
  if (!is_contiguous && plan.degrees[task.type] == slots) {
    return states.index_select(0, edges_of(plan.edge_rows, task)).view({task.size(), -1});
  }
  std::vector<at::Tensor> parts;
  for (int64_t slot = 0; slot < slots; ++slot) {
    parts.push_back(gathered(plan, number, states, slot));
  }
  return at::cat(parts, 1);
}

c10::IValue argument(const TaskPlan& plan, size_t number, const Column& column) {
  const Task& task = plan.task(number);
  const auto part = [&](int64_t begin, int64_t end, int64_t first) {
    return part_of(column.value.toTensor(), column.dim, column.per * (begin - first),
                   column.per * (end - begin));
  };
  switch (column.kind) {
    case Column::Kind::kWhole:
      return column.value;
    case Column::Kind::kRows:
      return part(task.begin, task.end, plan.first_row(task));
    case Column::Kind::kEdges:
      return part(task.edge_begin, task.edge_end, plan.first_edge(task));
    case Column::Kind::kScratch:
      return part(task.begin, task.end, task.begin);
    case Column::Kind::kScratchOfEdges:
      return part(task.edge_begin, task.edge_end, task.edge_begin);
    case Column::Kind::kParents:
      return edges_of(plan.parents, task);
    case Column::Kind::kGather:
      return gathered(plan, number, column.value.toTensor(), column.slot);
    case Column::Kind::kEach:
      return column.value.toTensor().index_select(0, edges_of(plan.edge_rows, task));
    case Column::Kind::kBeside:
      return beside(plan, number, column.value.toTensor(), column.slot);
  }
  throw InternalError("tasks: a column of no kind");
}

void add_rows(const StateRows& to, const at::Tensor& index, const at::Tensor& rows,
              const at::Tensor& order) {
  using Signature = void(at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t,
                         const std::optional<at::Tensor>&);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("smex::add_rows", "").typed<Signature>();
  at::Tensor written = to;
  // Nothing reads the gradient of the row that stands for no child.
  op.call(written, index, rows, to.size(0) - 1,
          order.defined() ? std::optional(order) : std::nullopt);
}

void add(const TaskPlan& plan, size_t number, const TaskLoop::Sink& sink, const at::Tensor& value) {
  const Task& task = plan.task(number);
  if (sink.kind == TaskLoop::Sink::Kind::kEach) {
    const bool in_order = plan.edge_orders.defined();
    add_rows(sink.grads, edges_of(plan.edge_rows, task), value,
             in_order ? edges_of(plan.edge_orders, task) : at::Tensor());
    return;
  }
  if (sink.slot >= task.slots) return;
  const SlotPlace place = place_of(plan, number, sink.slot);
  if (place.first >= 0) {
    part_of(sink.grads, 0, place.first, task.size()).add_(value);
  } else {
    add_rows(sink.grads, place.rows, value, place.order);
  }
}

}  // namespace

TaskPlan::TaskPlan(std::shared_ptr<const vertex::Schedule> schedule, at::Tensor edge_rows,
                   at::Tensor parents, at::Tensor slot_rows, at::Tensor edge_orders,
                   at::Tensor slot_orders)
    : schedule(std::move(schedule)),
      edge_rows(std::move(edge_rows)),
      parents(std::move(parents)),
      slot_rows(std::move(slot_rows)),
      edge_orders(std::move(edge_orders)),
      slot_orders(std::move(slot_orders)) {
  size_t slots = 0;
  for (const Task& task : this->schedule->tasks) {
    first_slots.push_back(slots);
    slots += task.slots;
  }
  const std::vector<int64_t>& rows = this->schedule->type_rows;
  const auto counts = this->schedule->counts.begin();
  for (size_t kind = 0; kind + 1 < rows.size(); ++kind) {
    const auto begin = counts + rows[kind], end = counts + rows[kind + 1];
    const bool is_alike =
        begin != end && std::all_of(begin, end, [&](int64_t count) { return count == *begin; });
    degrees.push_back(is_alike ? *begin : -1);
  }
  if (this->schedule->has_stages) stages = vertex::stages(*this->schedule);
}

TaskLoop::TaskLoop(std::shared_ptr<const Calls> calls, std::vector<Column> columns,
                   std::vector<std::vector<Sink>> sinks, std::vector<Twins> twins)
    : calls_(std::move(calls)),
      columns_(std::move(columns)),
      sinks_(std::move(sinks)),
      twins_(std::move(twins)),
      sums_(sinks_.size()) {
  if (static_cast<int>(columns_.size()) != calls_->given()) {
    throw InternalError("tasks: " + std::to_string(columns_.size()) + " columns for " +
                        std::to_string(calls_->given()) + " values");
  }
  find_work();
}

double TaskLoop::work(const Task& task) const {
  return work_of_row_ * static_cast<double>(task.size()) +
         work_of_edge_ * static_cast<double>(task.edge_end - task.edge_begin);
}

void TaskLoop::find_work() {
  may_run_beside_ = !calls_->draws();
  for (const Column& column : columns_) {
    if (!column.value.isTensor()) continue;
    const at::Tensor& value = column.value.toTensor();
    if (!value.is_cpu()) may_run_beside_ = false;
    const auto numbers = static_cast<double>(value.numel());
    const auto of_one = [&](int64_t dim) {
      return numbers * static_cast<double>(column.per) /
             static_cast<double>(std::max<int64_t>(value.size(dim), 1));
    };
    switch (column.kind) {
      case Column::Kind::kWhole:
        if (value.dim() > 1) work_of_row_ += numbers;
        break;
      case Column::Kind::kRows:
      case Column::Kind::kScratch:
        work_of_row_ += of_one(column.dim);
        break;
      case Column::Kind::kEdges:
      case Column::Kind::kScratchOfEdges:
        work_of_edge_ += of_one(column.dim);
        break;
      case Column::Kind::kGather:
      case Column::Kind::kBeside:
        work_of_row_ += of_one(0);
        break;
      case Column::Kind::kEach:
        work_of_edge_ += of_one(0);
        break;
      case Column::Kind::kParents:
        break;
    }
  }
}

TaskLoop::Results TaskLoop::compute(const TaskPlan& plan, size_t number) {
  std::vector<c10::IValue> arguments;
  arguments.reserve(columns_.size());
  for (const Column& column : columns_) arguments.push_back(argument(plan, number, column));
  Results results = calls_->run(std::move(arguments));
  for (size_t n = 0; n < sinks_.size(); ++n) {
    const at::Tensor& value = results.at(n).toTensor();
    for (const Sink& sink : sinks_[n]) {
      if (sink.kind != Sink::Kind::kSum) continue;
      if (sums_[n].defined()) {
        sums_[n].add_(value);
      } else {
        sums_[n] = value.clone();
      }
    }
  }
  const Task& task = plan.task(number);
  for (const Twins& twins : twins_) {
    part_of(twins.to, 0, task.begin, task.size())
        .copy_(part_of(twins.from, 0, task.begin, task.size()));
  }
  return results;
}

void TaskLoop::add_results(const TaskPlan& plan, size_t number, const Results& results) const {
  for (size_t n = 0; n < sinks_.size(); ++n) {
    for (const Sink& sink : sinks_[n]) {
      if (sink.kind != Sink::Kind::kSum) add(plan, number, sink, results[n].toTensor());
    }
  }
}

Tasks::Tasks(std::shared_ptr<const TaskPlan> plan, std::vector<std::shared_ptr<TaskLoop>> loops,
             bool beside)
    : plan_(std::move(plan)), loops_(std::move(loops)), beside_(beside) {
  if (loops_.size() != plan_->degrees.size()) {
    throw InternalError("tasks: " + std::to_string(loops_.size()) + " loops for " +
                        std::to_string(plan_->degrees.size()) + " kinds");
  }
}

void Tasks::run(size_t begin, size_t end, bool backward) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const std::vector<size_t>& stages = plan_->stages;
  std::vector<size_t> numbers;
  for (size_t n = begin; n < end;) {
    const size_t number = backward ? begin + end - 1 - n : n;
    // The stage's tasks from here on.
    const auto next = std::upper_bound(stages.begin(), stages.end(), number);
    size_t last = n + 1;
    if (!stages.empty()) last = backward ? begin + end - *(next - 1) : *next;
    numbers.clear();
    for (; n < std::min(last, end); ++n) {
      const size_t one = backward ? begin + end - 1 - n : n;
      if (loops_[plan_->task(one).type]) numbers.push_back(one);
    }
    if (const auto of_threads = divided(numbers); !of_threads.empty()) {
      run_beside(numbers, of_threads);
    } else {
      run_in_turn(numbers);
    }
  }
}

/// The tasks of each thread, as places among the numbers; empty where they run one by one.
std::vector<std::vector<size_t>> Tasks::divided(std::span<const size_t> numbers) const {
  // A mode of Python may want every operator in the order of the calls.
  if (!beside_ || numbers.size() < 2 || at::in_parallel_region() ||
      c10::impl::dispatch_mode_enabled()) {
    return {};
  }
  std::vector<double> work;
  for (const size_t number : numbers) {
    const Task& task = plan_->task(number);
    const TaskLoop& loop = *loops_[task.type];
    if (!loop.may_run_beside()) return {};
    work.push_back(loop.work(task));
  }
  return vertex::tasks_of_threads(work, at::get_num_threads());
}

void Tasks::run_in_turn(std::span<const size_t> numbers) {
  for (const size_t number : numbers) {
    running_ = plan_->task(number).type;
    TaskLoop& loop = *loops_[running_];
    loop.add_results(*plan_, number, loop.compute(*plan_, number));
  }
}

void Tasks::run_beside(std::span<const size_t> numbers,
                       const std::vector<std::vector<size_t>>& of_threads) {
  std::vector<TaskLoop::Results> results(numbers.size());
  std::vector<std::exception_ptr> failures(numbers.size());
  const at::ThreadLocalState state;
  at::parallel_for(0, std::ssize(of_threads), 1, [&](int64_t begin, int64_t end) {
    const at::ThreadLocalStateGuard guard(state);
    for (int64_t thread = begin; thread < end; ++thread) {
      for (const size_t n : of_threads[thread]) {
        try {
          results[n] = loops_[plan_->task(numbers[n]).type]->compute(*plan_, numbers[n]);
        } catch (...) {
          failures[n] = std::current_exception();
        }
      }
    }
  });
  for (size_t n = 0; n < numbers.size(); ++n) {
    running_ = plan_->task(numbers[n]).type;
    if (failures[n]) std::rethrow_exception(failures[n]);
    loops_[running_]->add_results(*plan_, numbers[n], results[n]);
  }
}

}  // namespace smex::runtime
