#include "runtime/vertex/calls.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/stack.h>
#include <c10/util/generic_math.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"

namespace smex::runtime {
namespace {

using Values = std::vector<c10::IValue>;
using Stack = torch::jit::Stack;

/// Calls `visit` with the number of each value that a call reads.
template <typename Visit>
void for_each_read(const Calls::Call& call, const Visit& visit) {
  const auto visit_value = [&](int value) {
    if (value != Calls::kNone) visit(value);
  };
  if (const auto* one = std::get_if<Calls::OfOperator>(&call)) {
    for (const Calls::Operand& operand : one->operands) visit(operand.value);
    for (const Calls::OperandList& list : one->lists) {
      for (const int value : list.values) visit_value(value);
      for (const Calls::Size& size : list.sizes) visit_value(size.value);
    }
  } else if (const auto* item = std::get_if<Calls::OfItem>(&call)) {
    visit_value(item->list);
  } else {
    const auto& sizes = std::get<Calls::OfSizes>(call);
    visit_value(sizes.left.value);
    visit_value(sizes.right.value);
  }
}

/// The same with what it makes.
template <typename Visit>
void for_each_made(const Calls::Call& call, const Visit& visit) {
  if (const auto* one = std::get_if<Calls::OfOperator>(&call)) {
    for (const int value : one->results) {
      if (value != Calls::kNone) visit(value);
    }
    if (one->list != Calls::kNone) visit(one->list);
  } else if (const auto* item = std::get_if<Calls::OfItem>(&call)) {
    visit(item->result);
  } else {
    visit(std::get<Calls::OfSizes>(call).result);
  }
}

int64_t size_of(const Calls::Size& size, const Values& values) {
  return size.value == Calls::kNone ? size.constant : values[size.value].toInt();
}

c10::IValue list_of(const Calls::OperandList& list, const Values& values) {
  if (!list.of_tensors) {
    c10::List<int64_t> sizes;
    for (const Calls::Size& size : list.sizes) sizes.push_back(size_of(size, values));
    return sizes;
  }
  if (list.optional) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const int value : list.values) {
      tensors.push_back(value == Calls::kNone ? std::optional<at::Tensor>()
                                              : std::optional(values[value].toTensor()));
    }
    return tensors;
  }
  c10::List<at::Tensor> tensors;
  for (const int value : list.values) tensors.push_back(values[value].toTensor());
  return tensors;
}

void make(const Calls::OfOperator& call, Values& values, Stack& stack) {
  stack.assign(call.arguments.begin(), call.arguments.end());
  for (const Calls::Operand& operand : call.operands) {
    stack[operand.position] = values[operand.value];
  }
  for (const Calls::OperandList& list : call.lists) stack[list.position] = list_of(list, values);
  call.op.callBoxed(stack);
  if (call.list != Calls::kNone) values[call.list] = stack.at(0);
  size_t number = 0;
  const auto take = [&](c10::IValue value) {
    const int result = number < call.results.size() ? call.results[number] : Calls::kNone;
    ++number;
    if (result != Calls::kNone) values[result] = std::move(value);
  };
  for (c10::IValue& result : stack) {
    if (result.isTensorList()) {
      for (at::Tensor tensor : result.toTensorVector()) take(std::move(tensor));
    } else {
      take(std::move(result));
    }
  }
  stack.clear();
}

void make(const Calls::OfItem& call, Values& values) {
  values[call.result] = values[call.list].toTensorList().get(call.index);
}

void make(const Calls::OfSizes& call, Values& values) {
  const int64_t a = size_of(call.left, values), b = size_of(call.right, values);
  switch (call.operation) {
    case '+':
      values[call.result] = a + b;
      return;
    case '-':
      values[call.result] = a - b;
      return;
    case '/':
      values[call.result] = c10::div_floor_integer(a, b);
      return;
    default:
      values[call.result] = a * b;
  }
}

}  // namespace

Calls::Calls(int given, std::vector<Call> calls, std::vector<int> results)
    : given_(given), calls_(std::move(calls)), results_(std::move(results)), count_(given) {
  number_values();
  find_last_uses();
}

bool Calls::draws() const {
  return std::any_of(calls_.begin(), calls_.end(), [](const Call& call) {
    const auto* of = std::get_if<OfOperator>(&call);
    return of && of->op.hasTag(at::Tag::nondeterministic_seeded);
  });
}

void Calls::number_values() {
  std::vector<bool> is_made(given_, true);
  const auto check = [&](int value) {
    if (value >= 0 && value < static_cast<int>(is_made.size()) && is_made[value]) return;
    throw InternalError("calls: value " + std::to_string(value) + " is read before it is made");
  };
  for (const Call& call : calls_) {
    for_each_read(call, check);
    for_each_made(call, [&](int value) {
      count_ = std::max(count_, value + 1);
      is_made.resize(count_, false);
      is_made[value] = true;
    });
  }
  for (const int result : results_) check(result);
}

void Calls::find_last_uses() {
  dying_.resize(calls_.size());
  std::vector<bool> is_needed(count_, false);
  for (const int result : results_) is_needed[result] = true;
  for (size_t n = calls_.size(); n-- > 0;) {
    const auto note = [&](int value) {
      if (is_needed[value]) return;
      is_needed[value] = true;
      dying_[n].push_back(value);
    };
    for_each_made(calls_[n], note);
    for_each_read(calls_[n], note);
  }
}

std::vector<c10::IValue> Calls::run(std::vector<c10::IValue> values) const {
  if (static_cast<int>(values.size()) != given_) {
    throw InternalError("calls: expected " + std::to_string(given_) + " values, found " +
                        std::to_string(values.size()));
  }
  // Nobody asks for gradients of these, nor for versions of what they write.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  values.resize(count_);
  Stack stack;
  for (size_t n = 0; n < calls_.size(); ++n) {
    if (const auto* call = std::get_if<OfOperator>(&calls_[n])) {
      make(*call, values, stack);
    } else if (const auto* item = std::get_if<OfItem>(&calls_[n])) {
      make(*item, values);
    } else {
      make(std::get<OfSizes>(calls_[n]), values);
    }
    for (const int value : dying_[n]) values[value] = c10::IValue();
  }
  std::vector<c10::IValue> found;
  found.reserve(results_.size());
  for (const int result : results_) found.push_back(values[result]);
  return found;
}

}  // namespace smex::runtime
