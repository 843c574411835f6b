#include "runtime/measure.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <time.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "ir/error.h"
#include "runtime/dtype.h"
#include "runtime/elements.h"
#include "runtime/steps.h"
#include "runtime/tile.h"

namespace smex::runtime {
namespace {

bool is_number(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type()) || at::isComplexType(tensor.scalar_type());
}

/// Numbers in memory of a device that lies as the placeholder's would; those of a large tensor
/// repeat.
at::Tensor filled(const at::Tensor& shape, c10::Device device) {
  int64_t elements = shape.numel() > 0 ? 1 : 0;
  for (int64_t d = 0; elements > 0 && d < shape.dim(); ++d) {
    elements += (shape.size(d) - 1) * shape.stride(d);
  }
  at::Tensor memory = at::empty({elements}, shape.options().device(device));
  constexpr int64_t kDrawn = 1 << 16;
  memory.narrow(0, 0, std::min(elements, kDrawn)).uniform_(0.25, 0.75);
  for (int64_t known = kDrawn; known < elements; known *= 2) {
    const int64_t count = std::min(known, elements - known);
    memory.narrow(0, known, count).copy_(memory.narrow(0, 0, count));
  }
  return memory.as_strided(shape.sizes(), shape.strides());
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// How much longer work takes than the processor computes for it. A process may have a part of a
/// processor only, by a quota or beside others: then it stands still between some calls, or in one
/// of them, for longer than most take, so that no single call tells.
class Pace {
 public:
  /// Calls again for so many seconds, once at least and a number of times at most; returns the
  /// processor's seconds of a median call.
  template <typename Call>
  double median(const Call& call, double seconds, int most_repeats) {
    std::vector<double> taken;
    const double start = seconds_of(CLOCK_MONOTONIC);
    const double first = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double begin = first, computed = 0, passed = 0;
    do {
      call();
      const double end = seconds_of(CLOCK_THREAD_CPUTIME_ID);
      taken.push_back(end - begin);
      computed = end - first;
      passed = seconds_of(CLOCK_MONOTONIC) - start;
      begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    } while (computed < seconds && static_cast<int>(taken.size()) < most_repeats);
    computed_ += computed;
    passed_ += passed;
    const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
    std::nth_element(taken.begin(), middle, taken.end());
    return *middle;
  }

  /// Seconds that pass while the processor computes for one, over all that was measured.
  double seconds() const { return computed_ > 0 ? std::max(1.0, passed_ / computed_) : 1.0; }

 private:
  double computed_ = 0, passed_ = 0;
};

/// Seconds of one of many calls that an accelerator has queued: of the host's time for it and the
/// device's the longer, as in a program.
template <typename Call>
double queued_seconds(c10::Device device, const Call& call, double seconds) {
  constexpr int kMostCalls = 500;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto run = [&](int count) {
    const double begin = seconds_of(CLOCK_MONOTONIC);
    for (int n = 0; n < count; ++n) call();
    guard.synchronizeDevice(device.index());
    return (seconds_of(CLOCK_MONOTONIC) - begin) / count;
  };
  guard.synchronizeDevice(device.index());
  const double first = run(1);
  const int count = static_cast<int>(std::clamp(seconds / first, 1.0, 1.0 * kMostCalls));
  return count > 1 ? run(count) : first;
}

/// An accelerator that has done nothing runs slowly at first.
void wake(c10::Device device) {
  constexpr double kSeconds = 0.3;
  const at::Tensor a = at::ones({2048, 2048}, at::TensorOptions().device(device));
  queued_seconds(device, [&] { at::mm(a, a); }, kSeconds);
}

/// Rounds over all calls, so that each is measured at several times: processors change their pace,
/// by a third within a second where others compute beside them.
constexpr int kRounds = 6;
constexpr int kFewestRounds = 3;
constexpr double kLongEnough = 0.3;  ///< seconds of the processor, with fewer rounds too

/// Calls that are alike, and what one takes.
struct Alike {
  MeasuredCall call;
  std::vector<at::Tensor> results;  ///< how those of the first one lie
  std::vector<double> seconds;      ///< of the processor, by round
  int last_round = -1;

  bool is_due(int round) const {
    const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    return last_round < round && !seconds.empty() &&
           (seconds.size() < kFewestRounds || sum < kLongEnough);
  }
};

/// All calls that were found, and when.
struct Found {
  std::unordered_map<std::string, Alike> alike;
  std::vector<Alike*> measured;  ///< in the order in which they were
  Pace pace;
  int round = 0;
};

class Measurement {
 public:
  Measurement(const Program& program, const Graph& graph, int worker,
              const std::vector<at::Tensor>& given, const MeasureOptions& options, Found& found)
      : program_(program),
        graph_(graph),
        worker_(worker),
        options_(options),
        steps_(
            prepare_steps(program, std::vector<c10::Device>(program.num_workers, options.device))),
        slots_(program.workers.at(worker).num_slots),
        found_(found) {
    for (const Binding& binding : program.inputs) {
      const Slot slot = binding.slots.at(worker);
      const bool is_given =
          binding.value != kNoValue && static_cast<size_t>(binding.value) < given.size();
      if (slot == kNoSlot) continue;
      slots_[slot] = input(binding, is_given ? given[binding.value] : at::Tensor());
    }
  }

  void run() {
    const WorkerSteps& all = steps_.workers[worker_];
    const double count = std::max<double>(1, all.forward.size() + all.backward.size());
    size_t done = 0;
    for (const std::vector<Step>* list : {&all.forward, &all.backward}) {
      for (const Step& step : *list) {
        if (const auto* fetch = std::get_if<FetchStep>(&step)) make(*fetch);
        if (const auto* compute = std::get_if<ComputeStep>(&step)) make(*compute);
        if (options_.progress) options_.progress(++done / count);
      }
    }
  }

 private:
  at::Tensor input(const Binding& binding, const at::Tensor& given) const {
    const Value* value = binding.value == kNoValue ? nullptr : &graph_.value(binding.value);
    const Region& region = binding.regions.at(worker_);
    if (!binding.contents.empty() && binding.contents[worker_]) {
      const int itemsize = program_.workers[worker_].slot_itemsizes.at(binding.slots[worker_]);
      const at::Tensor wide = at::tensor(*binding.contents[worker_], at::kLong);
      return wide.view(region.shape()).to(options_.device, itemsize == 4 ? at::kInt : at::kLong);
    }
    if (given.defined() && !is_number(given))
      return box_view(given, region).contiguous().to(options_.device);
    return placeholder(region.shape(), value ? parse_dtype(value->dtype) : at::kFloat);
  }

  /// A tensor of a shape, of which only that is known.
  at::Tensor placeholder(at::IntArrayRef shape, c10::ScalarType type) const {
    const bool has_numbers = at::isFloatingType(type) || at::isComplexType(type);
    const at::TensorOptions options = at::TensorOptions().dtype(type);
    return has_numbers ? at::empty(shape, options.device(at::kMeta))
                       : at::zeros(shape, options.device(options_.device));
  }

  void make(const FetchStep& step) {
    const FetchInstr& fetch = *step.instr;
    at::Tensor& dest = slots_[fetch.dest];
    if (fetch.parts.size() == 1 && fetch.parts[0].worker == worker_) {
      const CopyPart& part = fetch.parts[0];
      const at::Tensor& source = slots_[part.slot];
      const bool is_whole = part.dest == Region::whole(fetch.shape) && !part.source.list;
      if (is_whole && source.defined()) {
        dest = box_view(source, part.source);
        return;
      }
    }
    const auto type = fetch.value != kNoValue ? parse_dtype(graph_.value(fetch.value).dtype)
                                              : parse_dtype(fetch.dtype);
    dest = placeholder(fetch.shape, type);
    if (is_number(dest)) time_copies(step, dest);
  }

  /// Of what a fetch copies of the worker's own tiles.
  void time_copies(const FetchStep& step, const at::Tensor& shape) {
    const OwnCopy own = own_copy(*step.instr, worker_);
    if (own.elements == 0) return;
    const int itemsize = static_cast<int>(shape.element_size());
    MeasuredCall fetch{own.kind, "fetch", {}, 0};
    fetch.work.operations = own.pieces;
    for (int end = 0; end < 2; ++end) fetch.work.add_operand(own.elements * itemsize);
    fetch.work.add_memory(static_cast<double>(shape.nbytes()), itemsize);
    std::map<Slot, at::Tensor> sources;
    for (const Copy& copy : step.copies) {
      if (copy.worker != worker_ || sources.count(copy.slot)) continue;
      const at::Tensor& source = slots_[copy.slot];
      if (!source.defined() || !source.is_meta()) return;
      sources.emplace(copy.slot, filled(source, options_.device));
    }
    std::ostringstream kind;
    kind << own.kind << ' ' << own.elements << ' ' << shape.scalar_type() << shape.sizes();
    const auto [at, is_new] = found_.alike.try_emplace(kind.str());
    if (!is_new && !at->second.is_due(found_.round)) return;
    at->second.call = fetch;
    at::Tensor dest;
    measure(at->second, [&] {
      dest.reset();
      dest = at::empty(shape.sizes(), shape.options().device(options_.device));
      for (const Copy& copy : step.copies) {
        if (copy.worker != worker_) continue;
        const at::Tensor& source = sources.at(copy.slot);
        if (copy.combine) {
          combine_elements(dest, copy.dest, source, copy.source, step.instr->reduce, steps_.lists);
        } else {
          copy_elements(dest, copy.dest, source, copy.source, steps_.lists);
        }
      }
    });
  }

  /// Runs a call again and again for its part of a round. The first time does not count, unless
  /// the call is so long that it finds nothing of an earlier one in the caches.
  template <typename Call>
  void measure(Alike& alike, const Call& call) {
    alike.last_round = found_.round;
    if (alike.seconds.empty() || alike.seconds.back() < options_.call_seconds) call();
    const double part = options_.call_seconds / kRounds;
    const double seconds = options_.device.is_cpu()
                               ? found_.pace.median(call, part, options_.most_repeats)
                               : queued_seconds(options_.device, call, part);
    if (alike.seconds.empty()) found_.measured.push_back(&alike);
    alike.seconds.push_back(seconds);
  }

  void make(const ComputeStep& step) {
    const bool is_view = options_.views.count(step.instr->target) > 0 && !step.instr->copies;
    try {
      const at::AutoDispatchBelowAutograd no_gradients;
      is_view ? keep(step, call(step, operands(step))) : time(step);
    } catch (const std::exception&) {  // on numbers that are none of its own
      keep_shapes(step);
    }
  }

  at::Tensor operand(Slot slot) const {
    const at::Tensor& tensor = slots_.at(slot);
    if (!tensor.defined()) throw InternalError("an operand is not known");
    return tensor;
  }

  /// By slot, as far as the step reads them.
  using Operands = std::map<Slot, at::Tensor>;

  Operands operands(const ComputeStep& step) const {
    Operands found;
    for (const ValueId slot : tensor_operands(step.instr->args)) {
      if (slot != kNoValue) found.emplace(slot, operand(slot));
    }
    return found;
  }

  torch::jit::Stack stack_of(const ComputeStep& step, const Operands& operands) const {
    const Arguments& arguments = step.arguments;
    torch::jit::Stack stack(arguments.values.begin(), arguments.values.end());
    for (const TensorArgument& tensor : arguments.tensors) {
      const at::Tensor& value = operands.at(tensor.slot);
      stack[tensor.position] = step.dense ? value.contiguous() : value;
    }
    for (const TensorListArgument& list : arguments.lists) {
      if (list.optional) {
        c10::List<std::optional<at::Tensor>> tensors;
        for (const Slot slot : list.slots) {
          tensors.push_back(slot == kNoSlot ? std::nullopt : std::make_optional(operands.at(slot)));
        }
        stack[list.position] = std::move(tensors);
      } else {
        c10::List<at::Tensor> tensors;
        for (const Slot slot : list.slots) tensors.push_back(operands.at(slot));
        stack[list.position] = std::move(tensors);
      }
    }
    for (const int position : arguments.seeds) stack[position] = int64_t{0};
    return stack;
  }

  std::vector<at::Tensor> call(const ComputeStep& step, const Operands& operands) const {
    torch::jit::Stack stack = stack_of(step, operands);
    step.op.callBoxed(stack);
    std::vector<at::Tensor> results;
    for (const c10::IValue& result : stack) {
      if (result.isTensorList()) {
        for (const at::Tensor& tensor : result.toTensorVector()) results.push_back(tensor);
      } else {
        results.push_back(result.isTensor() ? result.toTensor() : at::Tensor());
      }
    }
    return results;
  }

  /// Operator, arguments, and how its operands lie.
  static std::string kind_of(const ComputeStep& step, const Operands& operands) {
    std::ostringstream text;
    text << (step.instr->kind ? *step.instr->kind : step.instr->target) << ' '
         << step.instr->operations << ' ' << step.instr->gathered;
    for (const c10::IValue& value : step.arguments.values) text << ' ' << value;
    for (const ValueId slot : tensor_operands(step.instr->args)) {
      if (slot == kNoValue) continue;
      const at::Tensor& operand = operands.at(slot);
      text << ' ' << operand.scalar_type() << operand.sizes() << operand.strides();
    }
    return std::move(text).str();
  }

  void time(const ComputeStep& step) {
    Operands known = operands(step);
    const auto [at, is_new] = found_.alike.try_emplace(kind_of(step, known));
    Alike& alike = at->second;
    if (!is_new && !alike.is_due(found_.round)) {
      alike.results.empty() ? keep_shapes(step) : keep(step, alike.results);  // as the first did
      return;
    }
    const ComputeInstr& instr = *step.instr;
    MeasuredCall& call = alike.call;
    call = {instr.kind ? *instr.kind : instr.target, instr.target, {}, 0};
    call.work.operations = instr.operations;
    call.work.gathered = instr.gathered;
    for (const ValueId slot : tensor_operands(step.instr->args)) {
      if (slot != kNoValue) call.work.add_operand(static_cast<double>(known.at(slot).nbytes()));
    }
    for (auto& [slot, tensor] : known) {
      if (tensor.is_meta()) tensor = filled(tensor, options_.device);
    }
    std::vector<at::Tensor> results;
    measure(alike, [&] {
      results.clear();  // those of programs are new ones
      results = this->call(step, known);
    });
    keep(step, results);
    for (size_t o = 0; o < step.instr->outputs.size() && o < results.size(); ++o) {
      const Slot slot = step.instr->outputs[o];
      if (slot == kNoSlot || !slots_[slot].defined()) continue;
      call.work.add_result(static_cast<double>(slots_[slot].nbytes()),
                           program_.workers[worker_].slot_itemsizes.at(slot));
      results[o] = slots_[slot];
    }
    alike.results = std::move(results);
  }

  /// Of results that are numbers no more than how they lie.
  void keep(const ComputeStep& step, const std::vector<at::Tensor>& results) {
    const auto& outputs = step.instr->outputs;
    for (size_t o = 0; o < outputs.size() && o < results.size(); ++o) {
      if (outputs[o] == kNoSlot || !results[o].defined()) continue;
      at::Tensor tensor = results[o];
      if (step.crop.rank() > 0 && tensor.sizes() == c10::IntArrayRef(step.instr->computed)) {
        tensor = box_view(tensor, step.crop);
      }
      slots_[outputs[o]] = !is_number(tensor) || tensor.is_meta()
                               ? tensor
                               : at::empty_strided(tensor.sizes(), tensor.strides(),
                                                   tensor.options().device(at::kMeta));
    }
  }

  /// Of a call that did not run.
  void keep_shapes(const ComputeStep& step) {
    const auto& shapes = step.instr->output_shapes;
    for (size_t o = 0; o < step.instr->outputs.size() && o < shapes.size(); ++o) {
      const Slot slot = step.instr->outputs[o];
      if (slot == kNoSlot) continue;
      const bool is_of_graph = step.instr->op >= 0 && step.instr->what.empty();
      const auto& outputs = graph_.op(is_of_graph ? step.instr->op : 0).outputs;
      const bool is_known = is_of_graph && o < outputs.size() && outputs[o] != kNoValue;
      const auto type = is_known ? parse_dtype(graph_.value(outputs[o]).dtype) : at::kFloat;
      slots_[slot] = placeholder(shapes[o], type);
    }
  }

  const Program& program_;
  const Graph& graph_;
  const int worker_;
  const MeasureOptions& options_;
  const Steps steps_;
  std::vector<at::Tensor> slots_;  ///< integers, and placeholders of numbers
  Found& found_;
};

}  // namespace

std::vector<MeasuredCall> measure_calls(const std::vector<const Program*>& programs,
                                        const Graph& graph, int worker,
                                        const std::vector<at::Tensor>& given,
                                        const MeasureOptions& options) {
  const c10::DeviceGuard guard(options.device);
  if (!options.device.is_cpu()) wake(options.device);
  Found found;
  for (; found.round < kRounds; ++found.round) {
    for (size_t n = 0; n < programs.size(); ++n) {
      MeasureOptions each = options;
      each.progress = [&](double share) {
        const double count = static_cast<double>(programs.size());
        const double round = (static_cast<double>(n) + share) / count;
        if (options.progress) options.progress((found.round + round) / kRounds);
      };
      Measurement(*programs[n], graph, worker, given, each, found).run();
    }
  }
  std::vector<MeasuredCall> calls;
  for (Alike* alike : found.measured) {
    const std::vector<double>& seconds = alike->seconds;
    const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    alike->call.seconds = found.pace.seconds() * sum / static_cast<double>(seconds.size());
    calls.push_back(std::move(alike->call));
  }
  return calls;
}

}  // namespace smex::runtime
