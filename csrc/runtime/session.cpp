#include "runtime/session.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "ir/error.h"
#include "runtime/plain_dispatch.h"
#include "runtime/spin.h"

namespace smex::runtime {
namespace {

constexpr std::chrono::milliseconds kInterruptPeriod{100};

/// Less than so much is done sooner than other threads have been woken.
constexpr double kWorthThreadsUs = 40;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& found) {
    return found.what_without_backtrace();
  } catch (const std::exception& found) {
    return found.what();
  } catch (...) {
    return "an exception without a text";
  }
}

bool is_failure_of_ranks(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RankFailure&) {
    return true;
  } catch (...) {
    return false;
  }
}

double microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// What the calling thread has used a processor for.
double processor_microseconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return 1e6 * static_cast<double>(used.tv_sec) + 1e-3 * static_cast<double>(used.tv_nsec);
}

int due_of(const Step& step) {
  if (const auto* fetch = std::get_if<FetchStep>(&step)) return fetch->instr->due;
  const auto* compute = std::get_if<ComputeStep>(&step);
  return compute ? compute->instr->due : -1;
}

/// Whether a copy is of a tile of the worker's own; sums come in packets.
bool is_own(int worker, const Copy& copy) { return copy.packet < 0 && copy.worker == worker; }

/// Calls `visit` for a slot of the worker as often as the step reads it.
template <typename Visit>
void for_each_own_read(int worker, const Step& step, const Visit& visit) {
  if (const auto* fetch = std::get_if<FetchStep>(&step)) {
    for (const Copy& copy : fetch->copies) {
      if (is_own(worker, copy)) visit(copy.slot);
    }
  } else if (const auto* compute = std::get_if<ComputeStep>(&step)) {
    for (const TensorArgument& tensor : compute->arguments.tensors) visit(tensor.slot);
    for (const TensorListArgument& list : compute->arguments.lists) {
      for (const Slot slot : list.slots) {
        if (slot != kNoSlot) visit(slot);
      }
    }
  }
}

/// Who writes slots rings for those that are counted.
class AtBell {
 public:
  AtBell(std::atomic<int>& waiters, bool counts) : waiters_(waiters), counts_(counts) {
    waiters_ += counts_;
  }
  ~AtBell() { waiters_ -= counts_; }
  AtBell(const AtBell&) = delete;
  AtBell& operator=(const AtBell&) = delete;

 private:
  std::atomic<int>& waiters_;
  const int counts_;
};

}  // namespace

Session::Session(std::shared_ptr<Executor> executor, int64_t seed, uint64_t net)
    : executor_(std::move(executor)), seed_(seed), started_(Clock::now()) {
  const Steps& steps = executor_->steps();
  for (const WorkerSteps& source : steps.workers) {
    auto worker = std::make_unique<Worker>();
    const size_t num_slots = executor_->is_here(static_cast<int>(workers_.size()))
                                 ? source.references.size()
                                 : 0;  // the workers of other processes are empty
    worker->slots = std::make_unique<SlotState[]>(num_slots);
    for (size_t i = 0; i < num_slots; ++i) worker->slots[i].references = source.references[i];
    worker->moved_bytes.assign(steps.kinds.size(), 0);
    if (executor_->program().spills()) {
      worker->host.emplace(executor_->device(static_cast<int>(workers_.size())));
      worker->memory.limit(executor_->program().device_memory);
    }
    workers_.push_back(std::move(worker));
  }
  if (!executor_->communicator()) return;
  remote_ = std::make_unique<RemoteTiles>(
      *executor_,
      RemoteTiles::Host{
          [this](int worker, Slot slot) -> SlotState& { return workers_[worker]->slots[slot]; },
          [this](int worker, Slot slot) { release(worker, slot); },
          [this] { return stopping_.load(); }, [this] { check_interrupt(); }},
      net);
}

Session::~Session() = default;

void Session::set_input(int index, const WorkerTensors& tiles) {
  const auto& bindings = executor_->program().inputs;
  if (index < 0 || static_cast<size_t>(index) >= bindings.size()) {
    throw UserError(c10::str("set_input: no input ", index, " among ", bindings.size()));
  }
  const Binding& binding = bindings[index];
  if (tiles.size() != workers_.size()) {
    throw UserError(c10::str("input ", index, ": expected a tile or None for each of the ",
                             workers_.size(), " workers, found ", tiles.size()));
  }
  for (size_t w = 0; w < tiles.size(); ++w) {
    const Slot slot = binding.slots[w];
    if (slot == kNoSlot || !executor_->is_here(static_cast<int>(w))) continue;
    const at::Tensor& tile = tiles[w];
    const std::string name = c10::str("input ", index, " on worker ", w);
    if (!tile.defined()) throw UserError(name + ": expected a tile, found None");
    if (w < binding.regions.size() &&
        tile.sizes() != c10::IntArrayRef(sizes_of(binding.regions[w]))) {
      throw UserError(c10::str(name, ": expected shape ",
                               c10::IntArrayRef(sizes_of(binding.regions[w])), ", found ",
                               tile.sizes()));
    }
    const c10::Device home = executor_->home(static_cast<int>(w));
    if (tile.device().type() != home.type()) {
      throw UserError(c10::str(name, ": expected device ", home, ", found ", tile.device()));
    }
    SlotState& state = workers_[w]->slots[slot];
    if (state.ready) throw UserError(name + " was set before");
    if (workers_[w]->host) {
      HostTiles::give(state, tile.requires_grad() ? tile.detach() : tile);
      publish(static_cast<int>(w), slot, std::nullopt);
      continue;
    }
    store(static_cast<int>(w), slot, tile.requires_grad() ? tile.detach() : tile,
          Counted::kAsBorrowed);
  }
}

void Session::run_forward() {
  if (stage_ != Stage::kNew) throw UserError("run_forward: this session has run; start another");
  run(/*backward=*/false);
  stage_ = Stage::kForwardDone;
}

void Session::run_backward() {
  if (stage_ != Stage::kForwardDone) {
    throw UserError("run_backward: runs once, after run_forward has succeeded");
  }
  run(/*backward=*/true);
  stage_ = Stage::kBackwardDone;
}

WorkerTensors Session::outputs(int index) const {
  const auto& bindings = executor_->program().outputs;
  if (index < 0 || static_cast<size_t>(index) >= bindings.size()) {
    throw UserError(c10::str("outputs: no output ", index, " among ", bindings.size()));
  }
  WorkerTensors tiles(workers_.size());
  for (size_t w = 0; w < tiles.size(); ++w) {
    const Slot slot = bindings[index].slots[w];
    if (slot == kNoSlot || !executor_->is_here(static_cast<int>(w))) continue;
    const SlotState& state = workers_[holder(w)]->slots[slot];
    if (!state.ready) {
      throw UserError(c10::str("outputs: output ", index, " is not computed yet"));
    }
    tiles[w] = seen(holder(w), slot);
  }
  return tiles;
}

WorkerTensors Session::take_outputs(int index) {
  WorkerTensors tiles = outputs(index);
  for (size_t w = 0; w < tiles.size(); ++w) {
    if (workers_[w]->follows) tiles[w].reset();
  }
  for (size_t w = 0; w < tiles.size(); ++w) {
    const at::Tensor& tile = tiles[w];
    // One reference is the slot's, the other the caller's; a view would hold the storage too.
    if (!tile.defined() || tile.use_count() != 2 || tile.storage().use_count() != 1) continue;
    const Slot slot = executor_->program().outputs[index].slots[w];
    if (executor_->steps().workers[w].outputs[slot] > 1) continue;
    SlotState& state = workers_[w]->slots[slot];
    if (!workers_[w]->host) workers_[w]->memory.remove(tile);
    (workers_[w]->host ? state.host : state.tensor).reset();
  }
  for (size_t w = 0; w < tiles.size(); ++w) {
    if (workers_[w]->follows) tiles[w] = tiles[holder(w)];
  }
  return tiles;
}

void Session::run(bool backward) {
  const Clock::time_point begin = Clock::now();
  stage_ = Stage::kFailed;  // until it is known not to be
  tracing_ = executor_->trace();
  last_check_ = begin;
  standstill_ = {};
  in_backward_ = backward;
  const bool alone = find_followers(backward);
  for (size_t w = 0; w < workers_.size(); ++w) {
    workers_[w]->finished = workers_[w]->follows || !executor_->is_here(static_cast<int>(w));
  }
  before_streams();
  if (remote_) remote_->begin(backward);
  auto& shared = executor_->shared_us_[backward];
  if (!alone && !tracing_ && !remote_ && workers_.size() > 1 && shared < kWorthThreadsUs) {
    executor_->run([this, backward](int) { run_in_turns(backward); }, {}, /*alone=*/true);
  } else {
    executor_->run(
        [this, backward](int worker) {
          if (!workers_[worker]->follows) run_worker(worker, backward);
        },
        [this] { tick(); }, alone);
  }
  if (!alone && executor_->stream(0) == std::nullopt) shared = shared_us(backward);
  end_remote();
  after_streams();
  for (const auto& worker : workers_) {
    if (worker->host) worker->host->settle();
  }
  const double seconds = microseconds(Clock::now() - begin) * 1e-6;
  (backward ? backward_seconds_ : forward_seconds_) = seconds;
  if (error_) std::rethrow_exception(error_);
}

void Session::end_remote() {
  if (!is_remote()) return;
  if (!error_) {
    try {
      remote_->finish();
    } catch (...) {
      record_failure(std::current_exception());
    }
  }
  remote_->end();
  // Peers wait for what this process does not send any more.
  if (error_ && !is_failure_of_ranks(error_)) {
    executor_->communicator()->fail(failed_where_, text_of(error_));
  }
}

void Session::await_packet(int worker, const Copy& copy) {
  if (remote_->is_there(copy)) return;
  Worker& self = *workers_[worker];
  const double begin = elapsed_us();
  const AtBell at_bell(bell_waiters_, !self.open.empty());
  if (!remote_->await(worker, copy, [&] { advance_open(worker); })) throw Stopped{};
  const double duration = elapsed_us() - begin;
  self.wait_us += duration;
  if (tracing_) {
    const int sender = remote_->sender(copy);
    self.events.push_back({worker,
                           sender < 0 ? "wait for a sum" : c10::str("wait for rank ", sender),
                           "wait", begin, duration, 0, kNoSlot, begin});
  }
}

at::Tensor Session::source_of(int worker, const Copy& copy, const at::Tensor& result) {
  if (copy.packet < 0) {
    if (copy.worker == worker) return operand(worker, copy.slot);
    const at::Tensor& tile = seen(copy.worker, copy.slot);
    return workers_[worker]->host ? tile.to(result.device(), /*non_blocking=*/true) : tile;
  }
  await_packet(worker, copy);
  return remote_->parcel(copy, result.scalar_type());
}

bool Session::find_followers(bool backward) {
  size_t followers = 0;
  for (size_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = *workers_[w];
    const bool may = executor_->steps().workers[w].twin >= 0 && !tracing_;
    worker.follows = may && (!backward || worker.follows) && has_tiles_of_twin(static_cast<int>(w));
    followers += worker.follows;
  }
  return followers + 1 == workers_.size();
}

bool Session::has_tiles_of_twin(int worker) const {
  const int twin = executor_->steps().workers[worker].twin;
  for (const Binding& binding : executor_->program().inputs) {
    const Slot slot = binding.slots[worker];
    if (slot == kNoSlot) continue;
    const SlotState &own = workers_[worker]->slots[slot], &other = workers_[twin]->slots[slot];
    if (!own.ready && !other.ready) continue;  // a tangent, before it is given
    const at::Tensor &a = own.host.defined() ? own.host : own.tensor,
                     &b = other.host.defined() ? other.host : other.tensor;
    // What the forward pass has freed was the same then.
    if (!a.defined() || !b.defined()) continue;
    const bool same = a.is_same(b) || (a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() &&
                                       a.strides() == b.strides() && a.dtype() == b.dtype() &&
                                       a.storage().is_alias_of(b.storage()));
    if (!same) return false;
  }
  return true;
}

int Session::holder(size_t worker) const {
  return workers_[worker]->follows ? executor_->steps().workers[worker].twin
                                   : static_cast<int>(worker);
}

void Session::tick() {
  try {
    check_interrupt();
    check_deadlock();
  } catch (...) {
    record_failure(std::current_exception());
  }
}

void Session::run_worker(int worker, bool backward) {
  Worker& self = *workers_[worker];
  try {
    const PlainDispatch plain;
    const c10::OptionalDeviceGuard device_guard(executor_->device(worker));
    const c10::OptionalStreamGuard stream_guard(executor_->stream(worker));
    const WorkerSteps& steps = executor_->steps().workers[worker];
    size_t next = 0;
    if (backward && !self.has_run) {
      run_steps(worker, steps.forward, self.step_us[0], next, /*waiting=*/true);
    }
    self.has_run = true;
    next = 0;
    run_steps(worker, backward ? steps.backward : steps.forward, self.step_us[backward], next,
              /*waiting=*/true);
  } catch (...) {
    record_failure(std::current_exception());
  }
  finish(worker);
}

void Session::finish(int worker) {
  workers_[worker]->stack.clear();
  workers_[worker]->finished = true;
  wake_waiters(*workers_[worker]);
  if (bell_waiters_ > 0) bell().ring();
}

void Session::run_in_turns(bool backward) {
  try {
    const PlainDispatch plain;
    std::vector<size_t> next(workers_.size(), 0);
    const auto list = [&](size_t w) -> const std::vector<Step>& {
      const WorkerSteps& steps = executor_->steps().workers[w];
      return backward ? steps.backward : steps.forward;
    };
    for (bool is_moving = true; is_moving;) {
      is_moving = false;
      for (size_t w = 0; w < workers_.size(); ++w) {
        Worker& self = *workers_[w];
        if (self.finished) continue;
        const int worker = static_cast<int>(w);
        const size_t before = next[w];
        const int64_t episode = self.episode;
        if (backward && !self.has_run) {
          size_t at = 0;
          run_steps(worker, executor_->steps().workers[w].forward, self.step_us[0], at,
                    /*waiting=*/true);
        }
        self.has_run = true;
        const bool goes_on =
            run_steps(worker, list(w), self.step_us[backward], next[w], /*waiting=*/false);
        if (!goes_on || (next[w] == list(w).size() && self.open.empty())) finish(worker);
        is_moving = is_moving || self.finished || next[w] != before || self.episode != episode;
      }
    }
    for (const auto& worker : workers_) {
      if (!worker->finished) throw InternalError(waiting_text());
    }
  } catch (...) {
    record_failure(std::current_exception());
  }
  for (size_t w = 0; w < workers_.size(); ++w) finish(static_cast<int>(w));
}

double Session::shared_us(bool backward) const {
  double total = 0, longest = 0;
  for (const auto& worker : workers_) {
    double own = 0;
    for (const double us : worker->step_us[backward]) own += us;
    total += own;
    longest = std::max(longest, own);
  }
  return total - longest;
}

bool Session::is_readable(const RemoteRead& read) const {
  const SlotState& state = workers_[read.worker]->slots[read.slot];
  return state.ready && (!state.written || state.written->query());
}

bool Session::is_here(int worker, const Copy& copy) const {
  if (copy.packet >= 0) return remote_->has_come(copy);
  // A tile of its own may be what another open fetch brings.
  return !is_own(worker, copy) || workers_[worker]->slots[copy.slot].ready;
}

bool Session::would_wait(int worker, const Step& step) const {
  const auto* fetch = std::get_if<FetchStep>(&step);
  if (!fetch) return false;
  for (const RemoteRead& read : fetch->reads) {
    const Worker& owner = *workers_[read.worker];
    if (owner.slots[read.slot].ready || owner.finished) continue;
    workers_[worker]->awaited_worker = read.worker;
    workers_[worker]->awaited_slot = read.slot;
    return true;
  }
  return false;
}

bool Session::run_steps(int worker, const std::vector<Step>& steps, std::vector<double>& step_us,
                        size_t& next, bool waiting) {
  const bool on_caller = worker == executor_->workers()[0] || !waiting;
  const std::vector<OpenStep>& open = workers_[worker]->open;
  step_us.resize(steps.size(), 0);
  for (;; ++next) {
    if (stopping_.load(std::memory_order_relaxed)) return false;
    try {
      if (!open.empty()) {
        advance_open(worker);
        if (!finish_due(worker, next, waiting)) return true;
      }
      if (next == steps.size()) return true;
      const Step& step = steps[next];
      if (due_of(step) > static_cast<int>(next)) {
        open_step(worker, step, next);
        continue;
      }
      if (!waiting && would_wait(worker, step)) return true;
      const uint64_t ticket = is_remote() ? remote_->record(worker, next) : 0;
      step_us[next] = run_step(worker, step);
      if (is_remote()) executor_->communicator()->recorder().end(ticket);
      if (on_caller) check_interrupt();
    } catch (const Stopped&) {
      return false;
    } catch (...) {
      const size_t position = std::min(next, steps.size() - 1);
      fail(worker, position, steps[position]);
      return false;
    }
  }
}

void Session::open_step(int worker, const Step& step, size_t position) {
  Worker& self = *workers_[worker];
  OpenStep open;
  open.fetch = std::get_if<FetchStep>(&step);
  open.step = &step;
  open.position = position;
  open.beside = true;
  open.ticket = is_remote() ? remote_->record(worker, position) : 0;
  open.begin_us = elapsed_us();
  // What it reads of its own worker may be freed by the list meanwhile.
  for_each_own_read(worker, step, [&](Slot slot) { ++self.slots[slot].references; });
  self.open.push_back(std::move(open));
}

void Session::advance_open(int worker) {
  Worker& self = *workers_[worker];
  for (size_t n = 0; n < self.open.size();) {
    if (try_finish(worker, self.open[n], /*waiting=*/false)) {
      self.open.erase(self.open.begin() + static_cast<std::ptrdiff_t>(n));
    } else {
      ++n;
    }
  }
}

bool Session::finish_due(int worker, size_t next, bool waiting) {
  Worker& self = *workers_[worker];
  while (true) {
    const auto due = std::find_if(self.open.begin(), self.open.end(), [&](const OpenStep& open) {
      return due_of(*open.step) <= static_cast<int>(next);
    });
    if (due == self.open.end()) return true;
    if (!waiting && would_wait(worker, *due->step)) return false;
    OpenStep open = std::move(*due);
    self.open.erase(due);
    try {
      try_finish(worker, open, /*waiting=*/true);
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      fail(worker, open.position, *open.step);
      throw Stopped{};
    }
  }
}

bool Session::try_finish(int worker, OpenStep& open, bool waiting) {
  if (open.fetch) {
    if (!copy_parts(worker, open, waiting)) return false;
    finish_fetch(worker, open);
    return true;
  }
  Worker& self = *workers_[worker];
  bool is_ready = true;
  for_each_own_read(worker, *open.step,
                    [&](Slot slot) { is_ready = is_ready && self.slots[slot].ready; });
  if (!is_ready && !waiting) return false;  // those that are due wait for nothing, in their order
  self.step_us[in_backward_][open.position] = run_step(worker, *open.step);
  for_each_own_read(worker, *open.step, [&](Slot slot) { release(worker, slot); });
  if (is_remote()) executor_->communicator()->recorder().end(open.ticket);
  self.episode += 2;
  return true;
}

double Session::run_step(int worker, const Step& step) {
  Worker& self = *workers_[worker];
  if (const auto* free = std::get_if<FreeStep>(&step)) {
    SlotState& state = self.slots[free->slot];
    if (self.host) self.host->drop({&state}, self.memory);  // others read what is on the host
    release(worker, free->slot);
    return 0;
  }
  const auto* compute = std::get_if<ComputeStep>(&step);
  const auto* fetch = std::get_if<FetchStep>(&step);
  const double begin = elapsed_us();
  if (const auto* move = std::get_if<MoveStep>(&step)) {
    const int64_t bytes = run_move(worker, *move);
    const double duration = elapsed_us() - begin;
    if (tracing_ && bytes > 0) {
      self.events.push_back({worker, describe(executor_->program(), worker, step),
                             name_of(move->instr->kind), begin, duration, bytes, kNoSlot, begin});
    }
    return duration;
  }
  const bool counts = tracing_ && executor_->device(worker).is_cpu() && at::get_num_threads() == 1;
  const double used = counts ? processor_microseconds() : 0;
  const double waited = self.wait_us;
  const int64_t moved = fetch ? self.moved_bytes[fetch->kind] : 0;
  compute ? run_compute(worker, *compute) : run_fetch(worker, *fetch);
  const double duration = elapsed_us() - begin;
  if (tracing_) {
    const double processor = counts ? processor_microseconds() - used : duration;
    self.events.push_back(
        {worker,
         compute ? operator_name(*compute->instr) : describe(executor_->program(), worker, step),
         compute ? "compute" : fetch->instr->kind, begin, duration,
         fetch ? self.moved_bytes[fetch->kind] - moved : 0, fetch ? fetch->instr->dest : kNoSlot,
         begin, compute ? compute->instr->op : -1, processor});
  }
  return duration - (self.wait_us - waited);
}

void Session::run_compute(int worker, const ComputeStep& step) {
  Worker& self = *workers_[worker];
  torch::jit::Stack& stack = self.stack;
  const Arguments& arguments = step.arguments;
  const SlotState* viewed = nullptr;  // on the host
  stack.assign(arguments.values.begin(), arguments.values.end());
  for (const TensorArgument& tensor : arguments.tensors) {
    const bool is_view = step.instr->anywhere;
    const at::Tensor& value =
        is_view ? anywhere(worker, tensor.slot) : operand(worker, tensor.slot);
    const SlotState& state = self.slots[tensor.slot];
    if (is_view && !state.tensor.defined()) viewed = &state;
    stack[tensor.position] = step.dense ? value.contiguous() : value;
  }
  for (const TensorListArgument& list : arguments.lists) {
    if (list.optional) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const Slot slot : list.slots) {
        tensors.push_back(slot == kNoSlot ? std::nullopt
                                          : std::make_optional(operand(worker, slot)));
      }
      stack[list.position] = std::move(tensors);
    } else {
      c10::List<at::Tensor> tensors;
      for (const Slot slot : list.slots) tensors.push_back(operand(worker, slot));
      stack[list.position] = std::move(tensors);
    }
  }
  for (const int position : arguments.seeds) stack[position] = seed_;
  if (step.instr->inside.dest != kNoSlot) {
    call_inside(worker, step);
  } else {
    step.op.callBoxed(stack);
  }
  store_outputs(worker, step, viewed);
  stack.clear();
}

void Session::call_inside(int worker, const ComputeStep& step) {
  Worker& self = *workers_[worker];
  const Inside& inside = step.instr->inside;
  const auto options = at::TensorOptions().device(executor_->device(worker)).dtype(step.inside_of);
  const at::Tensor tile = at::empty(inside.shape, options);
  self.memory.add(tile);
  self.begun[inside.dest] = tile;
  const Shape& shape = step.instr->output_shapes.at(0);
  const int64_t elements = c10::multiply_integers(shape);
  at::Tensor result = tile.view(-1).narrow(0, inside.offset, elements).view(shape);
  if (step.writer) {
    self.stack.emplace_back(std::move(result));
    step.writer->callBoxed(self.stack);
    return;
  }
  step.op.callBoxed(self.stack);
  result.copy_(self.stack.at(0).toTensor());
  self.stack[0] = std::move(result);
}

void Session::store_outputs(int worker, const ComputeStep& step, const SlotState* viewed) {
  const auto& slots = step.instr->outputs;
  size_t output = 0;
  const auto take = [&](at::Tensor tensor) {
    const size_t index = output++;
    if (index >= slots.size() || slots[index] == kNoSlot) return;
    if (step.crop.rank() > 0) tensor = box_view(tensor, step.crop);
    if (is_bookkeeping(step, index) && !executor_->device(worker).is_cpu()) {
      const c10::IntArrayRef expected(step.instr->output_shapes.at(index));
      if (tensor.sizes() != expected) tensor = at::empty(expected, tensor.options()).zero_();
    }
    check_shape(step, index, tensor);
    if (viewed) {
      store_on_host(worker, slots[index], std::move(tensor), *viewed);
    } else {
      store(worker, slots[index], std::move(tensor));
    }
  };
  for (c10::IValue& result : workers_[worker]->stack) {
    if (result.isTensor()) {
      take(std::move(result).toTensor());
    } else if (result.isTensorList()) {
      for (at::Tensor tensor : result.toTensorVector()) take(std::move(tensor));
    } else {
      take(at::Tensor());
    }
  }
  if (output < slots.size()) {
    throw InternalError(c10::str("expected ", slots.size(), " outputs, found ", output));
  }
}

// What a sum or mean of an embedding bag keeps for its backward pass has other shapes on GPUs,
// where the backward pass makes anew what it needs; models are captured with the CPU's.
bool Session::is_bookkeeping(const ComputeStep& step, size_t output) {
  return output > 0 && step.instr->target.rfind("aten::_embedding_bag", 0) == 0 &&
         output < step.instr->output_shapes.size();
}

void Session::check_shape(const ComputeStep& step, size_t output, const at::Tensor& tensor) const {
  const auto& expected = step.instr->output_shapes;
  if (output >= expected.size()) return;
  if (!tensor.defined()) {
    throw InternalError(c10::str("output ", output, ": expected shape ",
                                 c10::IntArrayRef(expected[output]), ", found no tensor"));
  }
  if (tensor.sizes() == c10::IntArrayRef(expected[output])) return;
  throw InternalError(c10::str("output ", output, ": expected shape ",
                               c10::IntArrayRef(expected[output]), ", found ", tensor.sizes()));
}

int64_t Session::run_move(int worker, const MoveStep& step) {
  Worker& self = *workers_[worker];
  std::vector<SlotState*> slots;
  for (const Slot slot : step.instr->slots) slots.push_back(&self.slots[slot]);
  if (step.instr->kind == MoveInstr::Kind::kDrop) {
    self.host->drop(slots, self.memory);
    return 0;
  }
  if (step.instr->kind == MoveInstr::Kind::kRestore) {
    const int64_t bytes = self.host->restore(slots, self.memory);
    self.restored += bytes;
    return bytes;
  }
  const int64_t bytes = self.host->write(slots);
  self.spilled += bytes;
  for (const Slot slot : step.instr->slots) {
    const bool is_awaited = executor_->steps().workers[worker].read_remotely[slot];
    if (is_awaited && !self.slots[slot].ready) publish(worker, slot, self.host->stream());
  }
  return bytes;
}

void Session::run_fetch(int worker, const FetchStep& step) {
  OpenStep open;
  open.fetch = &step;
  const bool is_view = step.instr->view;
  if (is_view && workers_[worker]->host) {
    const CopyPart& part = step.instr->parts[0];
    const SlotState& state = workers_[worker]->slots[part.slot];
    if (!state.tensor.defined()) {
      at::Tensor view = box_view(anywhere(worker, part.slot), part.source);
      return store_on_host(worker, step.instr->dest, std::move(view), state);
    }
  }
  if (is_view) {
    open.result = box_view(operand(worker, step.instr->parts[0].slot), step.instr->parts[0].source);
  } else {
    copy_parts(worker, open, /*waiting=*/true);
  }
  finish_fetch(worker, open);
}

bool Session::copy_parts(int worker, OpenStep& open, bool waiting) {
  Worker& self = *workers_[worker];
  const FetchStep& step = *open.fetch;
  const double waited = self.wait_us;
  if (open.beside) open.resumed_us = elapsed_us();
  const size_t before = open.next_read + open.next_copy;
  const auto allocate = [&](c10::ScalarType dtype) {
    if (step.instr->begun) {
      const auto begun = self.begun.find(step.instr->dest);
      open.result = std::move(begun->second);
      self.begun.erase(begun);
    } else {
      open.result = at::empty(step.instr->shape,
                              at::TensorOptions().device(executor_->device(worker)).dtype(dtype));
      if (open.beside) self.memory.add(open.result, /*borrowed=*/false);
    }
    if (step.instr->shape_only) return;
    for (const Region& region : step.uncovered) {
      fill_elements(open.result, region, step.instr->fill, executor_->steps().lists);
    }
  };
  const auto pause = [&] {
    if (open.next_read + open.next_copy == before) return false;
    open.busy_us += elapsed_us() - open.resumed_us;
    self.episode += 2;
    return false;
  };
  // Empty parts copy nothing, but their peers must be awaited: releasing a slot that is still to be
  // written would drop it as soon as it is.
  for (; open.next_read < step.reads.size(); ++open.next_read) {
    const RemoteRead& read = step.reads[open.next_read];
    if (!waiting && !is_readable(read)) return pause();
    await_slot(worker, read.worker, read.slot);
  }
  for (; open.next_copy < step.copies.size(); ++open.next_copy) {
    const Copy& copy = step.copies[open.next_copy];
    if (!waiting && !is_here(worker, copy)) return pause();
    if (!open.result.defined()) {
      allocate(step.dtype != c10::ScalarType::Undefined
                   ? step.dtype
                   : seen(copy.worker, copy.slot).scalar_type());
    }
    const at::Tensor from = source_of(worker, copy, open.result);
    const ListTensors& lists = executor_->steps().lists;
    if (copy.combine) {
      combine_elements(open.result, copy.dest, from, copy.source, step.instr->reduce, lists);
    } else {
      copy_elements(open.result, copy.dest, from, copy.source, lists);
    }
    // At once: others of this fetch may wait for the space that the packet takes.
    if (copy.is_last) remote_->read(copy);
    if (open.beside && is_own(worker, copy)) release(worker, copy.slot);
  }
  if (!open.result.defined()) {
    allocate(step.dtype != c10::ScalarType::Undefined ? step.dtype : at::kFloat);
  }
  if (open.beside) {
    open.busy_us += elapsed_us() - open.resumed_us - (self.wait_us - waited);
    self.episode += 2;
  }
  return true;
}

void Session::finish_fetch(int worker, OpenStep& open) {
  Worker& self = *workers_[worker];
  const FetchStep& step = *open.fetch;
  const int64_t bytes = step.remote_elements * static_cast<int64_t>(open.result.element_size());
  self.moved_bytes[step.kind] += bytes;
  // Who sees the result may count on it that what it was read from is released.
  for (const RemoteRead& read : step.reads) release(read.worker, read.slot);
  store(worker, step.instr->dest, std::move(open.result),
        open.beside || step.instr->begun ? Counted::kAlready : Counted::kAsOwn);
  if (!open.beside) return;
  self.step_us[in_backward_][open.position] = open.busy_us;
  if (is_remote()) executor_->communicator()->recorder().end(open.ticket);
  if (!tracing_) return;
  self.events.push_back({worker, describe(executor_->program(), worker, step), step.instr->kind,
                         open.resumed_us, elapsed_us() - open.resumed_us, bytes, step.instr->dest,
                         open.begin_us});
}

const at::Tensor& Session::operand(int worker, Slot slot) const {
  const SlotState& state = workers_[worker]->slots[slot];
  const bool is_here = state.tensor.defined() || !state.host.defined();
  if (state.ready.load(std::memory_order_relaxed) && state.references > 0 && is_here) {
    return state.tensor;
  }
  const auto& names = executor_->program().workers[worker].slot_names;
  const std::string name = slot < static_cast<Slot>(names.size()) ? " '" + names[slot] + "'" : "";
  throw InternalError(c10::str("reads slot ", slot, name, " of worker ", worker, ", which ",
                               !is_here      ? "is on the host"
                               : state.ready ? "was freed"
                                             : "holds nothing yet"));
}

const at::Tensor& Session::anywhere(int worker, Slot slot) const {
  const SlotState& state = workers_[worker]->slots[slot];
  if (!state.tensor.defined() && state.host.defined()) return state.host;
  return operand(worker, slot);
}

const at::Tensor& Session::seen(int worker, Slot slot) const {
  const SlotState& state = workers_[worker]->slots[slot];
  return state.host.defined() ? state.host : state.tensor;
}

template <typename Condition>
void Session::await_with_open(int worker, const Condition& is_over) {
  const AtBell at_bell(bell_waiters_, true);
  if (is_remote()) {
    remote_->await(worker, [&] {
      advance_open(worker);
      return is_over();
    });
    return;
  }
  const bool may_spin = have_cores(static_cast<int>(workers_.size()));
  while (true) {
    const uint32_t seen = bell_.rung();
    advance_open(worker);
    if (is_over()) return;
    if (may_spin && spin_until([&] { return bell_.rung() != seen; })) continue;
    bell_.wait(seen, kInterruptPeriod);
    if (worker == executor_->workers()[0]) tick();
  }
}

const at::Tensor& Session::await_slot(int reader, int owner, Slot slot) {
  Worker& self = *workers_[reader];
  Worker& peer = *workers_[owner];
  SlotState& state = peer.slots[slot];
  if (!state.ready.load(std::memory_order_acquire)) {
    const double begin = elapsed_us();
    self.awaited_worker = owner;
    self.awaited_slot = slot;
    ++self.episode;  // odd: waiting
    const auto is_over = [&] { return state.ready || peer.finished || stopping_; };
    if (!self.open.empty()) {
      await_with_open(reader, is_over);
    } else if (!have_cores(static_cast<int>(workers_.size())) || !spin_until(is_over)) {
      std::unique_lock lock(peer.mutex);
      ++peer.waiters;
      while (!peer.published.wait_for(lock, kInterruptPeriod, is_over)) {
        if (reader != executor_->workers()[0]) continue;
        lock.unlock();  // the caller's thread: nobody else looks
        tick();
        lock.lock();
      }
      --peer.waiters;
    }
    ++self.episode;
    const double duration = elapsed_us() - begin;
    self.wait_us += duration;
    if (tracing_) {
      self.events.push_back({reader, c10::str("wait for worker ", owner), "wait", begin, duration,
                             0, kNoSlot, begin});
    }
  }
  if (stopping_) throw Stopped{};
  if (!state.ready) {
    throw InternalError(c10::str("worker ", owner, " finished without writing slot ", slot));
  }
  const auto& stream = executor_->stream(reader);
  if (state.written && stream) {
    state.written->block(*stream);
    if (state.tensor.defined()) state.tensor.record_stream(*stream);
  }
  return seen(owner, slot);
}

void Session::store(int worker, Slot slot, at::Tensor tensor, Counted counted) {
  Worker& self = *workers_[worker];
  SlotState& state = self.slots[slot];
  if (counted != Counted::kAlready) self.memory.add(tensor, counted == Counted::kAsBorrowed);
  state.tensor = std::move(tensor);
  // Others read what the host gets next.
  if (self.host && executor_->steps().workers[worker].read_remotely[slot]) return;
  publish(worker, slot, executor_->stream(worker));
}

void Session::store_on_host(int worker, Slot slot, at::Tensor tensor, const SlotState& viewed) {
  SlotState& state = workers_[worker]->slots[slot];
  state.host = std::move(tensor);
  state.borrowed = viewed.borrowed;
  publish(worker, slot, std::nullopt);
}

void Session::publish(int worker, Slot slot, const std::optional<c10::Stream>& stream) {
  Worker& self = *workers_[worker];
  SlotState& state = self.slots[slot];
  if (!executor_->steps().workers[worker].read_remotely[slot] && !is_remote()) {
    state.ready.store(true, std::memory_order_relaxed);
    return;
  }
  if (stream) {
    state.written = std::make_unique<c10::Event>(stream->device_type());
    // An input was written on the caller's stream, which the worker's waits for before it runs.
    const c10::impl::VirtualGuardImpl guard(stream->device_type());
    state.written->record(self.host ? *stream : guard.getStream(executor_->device(worker)));
  }
  state.ready = true;
  if (self.waiters > 0) wake_waiters(self);
  if (bell_waiters_ > 0) bell().ring();
  if (is_remote()) remote_->written(worker, slot);
}

void Session::release(int worker, Slot slot) {
  Worker& owner = *workers_[worker];
  SlotState& state = owner.slots[slot];
  if (state.references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  owner.memory.remove(state.tensor);
  state.tensor.reset();
  state.host.reset();
}

void Session::fail(int worker, size_t position, const Step& step) {
  {
    const std::lock_guard lock(error_mutex_);
    if (failed_where_.empty()) {
      failed_where_ = c10::str(in_backward_ ? "backward" : "forward", " instruction ", position,
                               " (", describe(executor_->program(), worker, step), ")");
    }
  }
  const std::string where = describe(executor_->program(), worker, step);
  try {
    throw;
  } catch (c10::Error& error) {
    error.add_context("while running " + where);
    record_failure(std::current_exception());
  } catch (const RankFailure&) {
    record_failure(std::current_exception());
  } catch (const InternalError& error) {
    record_failure(std::make_exception_ptr(InternalError(where + ": " + error.what())));
  } catch (const UserError& error) {
    record_failure(std::make_exception_ptr(UserError(where + ": " + error.what())));
  } catch (const std::runtime_error& error) {
    record_failure(std::make_exception_ptr(std::runtime_error(where + ": " + error.what())));
  } catch (...) {
    const auto& keep = executor_->hooks().keep_exception;
    if (keep) keep(std::current_exception());
    record_failure(std::current_exception());
  }
}

void Session::record_failure(std::exception_ptr error) {
  {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::move(error);
  }
  stop();
}

void Session::stop() {
  stopping_ = true;
  for (auto& worker : workers_) wake_waiters(*worker);
  bell_.ring();
  if (executor_->communicator()) executor_->communicator()->doorbell().ring();
}

void Session::wake_waiters(Worker& worker) {
  // The lock orders this after a waiter's test of the condition and before its sleep.
  {
    const std::lock_guard lock(worker.mutex);
  }
  worker.published.notify_all();
}

void Session::check_interrupt() {
  const auto& check = executor_->hooks().check_interrupt;
  if (!check) return;
  const Clock::time_point now = Clock::now();
  if (now - last_check_ < kInterruptPeriod / 2) return;
  last_check_ = now;
  check();
}

void Session::check_deadlock() {
  // A worker seen in the same waiting episode in two pictures waited all the time between them.
  // When that holds for all that have not finished, nobody can have written what they wait for.
  Standstill now{true, {}};
  bool waiting = false;
  for (const auto& worker : workers_) {
    const int64_t episode = worker->episode;
    now.episodes.push_back(episode);
    if (worker->finished) continue;
    const int owner = worker->awaited_worker;
    const bool blocked = episode % 2 == 1 && !workers_[owner]->slots[worker->awaited_slot].ready;
    now.blocked = now.blocked && blocked;
    waiting = true;
  }
  now.blocked = now.blocked && waiting;
  const bool deadlocked =
      now.blocked && standstill_.blocked && now.episodes == standstill_.episodes;
  standstill_ = std::move(now);
  if (!deadlocked) return;
  throw InternalError(waiting_text());
}

std::string Session::waiting_text() const {
  std::string text = "the workers wait for each other:";
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (workers_[w]->finished) continue;
    text += c10::str(" worker ", w, " for slot ", workers_[w]->awaited_slot.load(), " of worker ",
                     workers_[w]->awaited_worker.load(), ";");
  }
  return text;
}

void Session::before_streams() {
  for (const int w : executor_->workers()) {
    const auto& stream = executor_->stream(w);
    if (!stream) continue;
    const c10::impl::VirtualGuardImpl guard(stream->device_type());
    c10::Event ready(stream->device_type());
    ready.record(guard.getStream(stream->device()));
    ready.block(*stream);
    for (const Binding& binding : executor_->program().inputs) {
      const Slot slot = binding.slots[w];
      if (slot == kNoSlot) continue;
      const at::Tensor& tile = workers_[w]->slots[slot].tensor;
      if (tile.defined()) tile.record_stream(*stream);
    }
  }
}

void Session::after_streams() {
  for (const int w : executor_->workers()) {
    const auto& stream = executor_->stream(w);
    if (!stream) continue;
    const c10::impl::VirtualGuardImpl guard(stream->device_type());
    const c10::Stream caller = guard.getStream(stream->device());
    c10::Event done(stream->device_type());
    done.record(*stream);
    done.block(caller);
    for (const Binding& binding : executor_->program().outputs) {
      const Slot slot = binding.slots[w];
      if (slot == kNoSlot) continue;
      const at::Tensor& tile = workers_[w]->slots[slot].tensor;
      if (tile.defined()) tile.record_stream(caller);
    }
  }
}

double Session::elapsed_us() const { return microseconds(Clock::now() - started_); }

Stats Session::stats() const {
  Stats stats;
  const auto& kinds = executor_->steps().kinds;
  for (const std::string& kind : kinds) stats.moved_bytes[kind] = 0;
  for (size_t w = 0; w < workers_.size(); ++w) {
    const Worker* worker = workers_[w].get();
    int64_t received = 0;
    for (size_t k = 0; k < kinds.size(); ++k) {
      stats.moved_bytes[kinds[k]] += worker->moved_bytes[k];
      received += worker->moved_bytes[k];
    }
    stats.received_bytes.push_back(received);
    const Worker& keeper = *workers_[holder(w)];
    if (keeper.host) {
      stats.spilled_bytes["spill"] += keeper.spilled;
      stats.spilled_bytes["restore"] += keeper.restored;
    }
    const MemoryCounter& memory = keeper.memory;
    stats.live_bytes.push_back(memory.live_bytes());
    stats.peak_bytes.push_back(memory.peak_bytes());
    stats.compute_seconds.push_back(0);
    stats.fetch_seconds.push_back(0);
    for (const bool backward : {false, true}) {
      const WorkerSteps& steps = executor_->steps().workers[w];
      const auto& list = backward ? steps.backward : steps.forward;
      for (size_t i = 0; i < worker->step_us[backward].size(); ++i) {
        const double seconds = worker->step_us[backward][i] * 1e-6;
        if (const auto* compute = std::get_if<ComputeStep>(&list[i])) {
          stats.compute_seconds.back() += seconds;
          stats.seconds_by_target[compute->instr->target] += seconds;
        } else if (const auto* fetch = std::get_if<FetchStep>(&list[i])) {
          stats.fetch_seconds.back() += seconds;
          stats.seconds_by_target[fetch->instr->kind] += seconds;
        } else if (const auto* move = std::get_if<MoveStep>(&list[i])) {
          stats.fetch_seconds.back() += seconds;
          stats.seconds_by_target[name_of(move->instr->kind)] += seconds;
        }
      }
    }
    stats.wait_seconds.push_back(worker->wait_us * 1e-6);
  }
  stats.forward_seconds = forward_seconds_;
  stats.backward_seconds = backward_seconds_;
  return stats;
}

std::vector<std::array<std::vector<double>, 2>> Session::instr_seconds() const {
  std::vector<std::array<std::vector<double>, 2>> seconds;
  for (const auto& worker : workers_) {
    seconds.push_back(worker->step_us);
    for (auto& list : seconds.back()) {
      for (double& number : list) number *= 1e-6;
    }
  }
  return seconds;
}

std::vector<TraceEvent> Session::trace_events() const {
  std::vector<TraceEvent> events;
  for (const auto& worker : workers_) {
    events.insert(events.end(), worker->events.begin(), worker->events.end());
  }
  return events;
}

}  // namespace smex::runtime
