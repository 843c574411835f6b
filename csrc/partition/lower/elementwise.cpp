#include "partition/lower/elementwise.h"

#include <algorithm>

#include "tdl/formula.h"

namespace smex {

namespace {

constexpr int kUnknown = -2;
constexpr int kNone = -1;

bool is_floating(const std::string& dtype) {
  return dtype == "float32" || dtype == "float64" || dtype == "bfloat16" || dtype == "float16";
}

}  // namespace

bool ElementwiseCalls::find(const ComputeInstr& compute, ElementwiseCall& call) {
  if (compute.op < 0 || !compute.crop.empty() || compute.outputs.size() != 1) return false;
  const Op& op = graph_.op(compute.op);
  if (compute.outputs[0] == kNoSlot || op.target != compute.target) return false;
  call.operations = operations_of(op);
  if (call.operations == kNone) return false;
  call.op = &op;
  call.out = compute.outputs[0];
  call.operands.assign(op.inputs.size(), kNoSlot);
  for (size_t a = 0; a < op.args.size(); ++a) {
    const auto* value = std::get_if<ValueRef>(&op.args[a]);
    if (!value || value->id == kNoValue) continue;
    const auto input = std::find(op.inputs.begin(), op.inputs.end(), value->id);
    call.operands[input - op.inputs.begin()] = std::get<ValueRef>(compute.args[a]).id;
  }
  return std::find(call.operands.begin(), call.operands.end(), kNoSlot) == call.operands.end();
}

int ElementwiseCalls::operations_of(const Op& op) {
  if (by_op_.empty()) by_op_.assign(graph_.ops().size(), kUnknown);
  int& known = by_op_[op.id];
  if (known != kUnknown) return known;
  if (!has_one_type(op)) return known = kNone;
  const auto [found, is_new] = by_spec_.try_emplace(op.spec.get());
  if (is_new)
    found->second = tdl::formula(*op.spec, std::vector<std::string>(op.inputs.size(), "x0"));
  const auto& formula = found->second;
  // Of doubles the kernel computes them one by one, torch's operators several at once.
  const bool is_slow =
      formula && formula->has_exponentials && graph_.value(op.outputs[0]).dtype == "float64";
  return known = formula && !is_slow ? formula->operations : kNone;
}

bool ElementwiseCalls::has_one_type(const Op& op) const {
  if (!op.spec || op.outputs.size() != 1 || op.outputs[0] == kNoValue || op.inputs.empty())
    return false;
  const std::string& type = graph_.value(op.outputs[0]).dtype;
  const bool are_alike = std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
    return graph_.value(input).dtype == type;
  });
  return is_floating(type) && are_alike;
}

}  // namespace smex
