// smex::pointwise: several element-wise calls as one operator (program.h).
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

/// The shape of a result of values of that shape.
at::SymDimVector shape_of_result(at::SymDimVector shape, bool is_column) {
  if (is_column && !shape.empty()) shape.back() = 1;
  return shape;
}

/// Finds a program without a copy of its text.
struct ByText {
  using is_transparent = void;
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    if (a.first != b.first) return a.first < b.first;
    return std::string_view(a.second) < std::string_view(b.second);
  }
};

}  // namespace

at::SymDimVector shape_of(at::TensorList operands) {
  type_of(operands);  // checks it
  const at::Tensor* widest = &operands[0];
  for (const at::Tensor& operand : operands) {
    TORCH_CHECK_VALUE(operand.device() == operands[0].device(), kPointwise,
                      ": expected operands on one device, found ", operands[0].device(), " and ",
                      operand.device());
    if (operand.dim() > widest->dim()) widest = &operand;
  }
  at::SymDimVector shape(widest->sym_sizes());
  for (const at::Tensor& operand : operands) {
    const int64_t missing = widest->dim() - operand.dim();
    for (int64_t d = 0; d < operand.dim(); ++d) {
      c10::SymInt& size = shape[missing + d];
      const c10::SymInt own = operand.sym_size(d);
      if (own == 1) continue;
      TORCH_CHECK_VALUE(size == 1 || size == own, kPointwise,
                        ": expected operands that broadcast, found ", operand.sym_sizes(), " and ",
                        widest->sym_sizes());
      size = own;
    }
  }
  return shape;
}

at::ScalarType type_of(at::TensorList operands) {
  TORCH_CHECK_VALUE(!operands.empty(), kPointwise, ": expected at least one operand, found none");
  const auto is_number = [](const at::Tensor& x) { return x.scalar_type() != at::kBool; };
  const auto first = std::find_if(operands.begin(), operands.end(), is_number);
  const at::ScalarType type =
      first == operands.end() ? at::kBool : static_cast<const at::Tensor&>(*first).scalar_type();
  for (const at::Tensor& operand : operands) {
    TORCH_CHECK_TYPE(
        at::isFloatingType(type) && (operand.scalar_type() == type || !is_number(operand)),
        kPointwise, ": expected operands of one floating point type, and of bool, found ", type,
        " and ", operand.scalar_type());
  }
  return type;
}

std::shared_ptr<const PointwiseProgram> program_of(std::string_view text, size_t num_operands) {
  static std::shared_mutex mutex;
  static std::map<std::pair<size_t, std::string>, std::shared_ptr<const PointwiseProgram>, ByText>
      known;
  const std::pair<size_t, std::string_view> key(num_operands, text);
  {
    const std::shared_lock<std::shared_mutex> lock(mutex);
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
  }
  try {
    auto made = std::make_shared<PointwiseProgram>(
        parse_pointwise(std::string(text), static_cast<int>(num_operands)));
    const std::unique_lock<std::shared_mutex> lock(mutex);
    return known.emplace(std::pair(num_operands, std::string(text)), std::move(made)).first->second;
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, kPointwise, ": ", error.what());
  }
}

void check_outs(const PointwiseProgram& program, at::TensorList operands, at::TensorList outs) {
  TORCH_CHECK_VALUE(outs.size() == program.outs.size(), kPointwise, ": expected ",
                    program.outs.size(), " results, found ", outs.size());
  const at::SymDimVector shape = shape_of(operands);
  const at::ScalarType type = type_of(operands);
  for (size_t i = 0; i < outs.size(); ++i) {
    const at::Tensor& out = outs[i];
    const at::ScalarType own = program.conditions[i] ? at::kBool : type;
    const at::SymDimVector wanted = shape_of_result(shape, program.columns[i]);
    TORCH_CHECK_VALUE(out.sym_sizes() == c10::SymIntArrayRef(wanted), kPointwise,
                      ": expected a result of shape ", c10::SymIntArrayRef(wanted), ", found ",
                      out.sym_sizes());
    TORCH_CHECK_TYPE(out.scalar_type() == own, kPointwise, ": expected a result of type ", own,
                     ", found ", out.scalar_type());
  }
}

at::TensorIterator iterator_of(at::TensorList operands, at::TensorList outs) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).resize_outputs(false).check_all_same_dtype(false);
  for (const at::Tensor& out : outs) config.add_output(out);
  for (const at::Tensor& operand : operands) config.add_const_input(operand);
  return config.build();
}

namespace {

/// Results, not initialised, whose rows are dense.
std::vector<at::Tensor> dense_outs(const PointwiseProgram& program, at::TensorList operands) {
  const at::SymDimVector shape = shape_of(operands);
  const at::ScalarType type = type_of(operands);
  std::vector<at::Tensor> outs;
  for (size_t i = 0; i < program.outs.size(); ++i) {
    const auto own = operands[0].options().dtype(program.conditions[i] ? at::kBool : type);
    outs.push_back(at::empty_symint(shape_of_result(shape, program.columns[i]), own));
  }
  return outs;
}

}  // namespace

std::vector<at::Tensor> new_outs(const PointwiseProgram& program, at::TensorList operands) {
  if (program.by_rows) return dense_outs(program, operands);
  shape_of(operands);  // checks them
  const at::ScalarType type = type_of(operands);
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).check_all_same_device(false).declare_static_dtype_and_device(
      type, operands[0].device());
  for (size_t i = 0; i < program.outs.size(); ++i) config.add_owned_output(at::Tensor());
  for (const at::Tensor& operand : operands) config.add_const_input(operand);
  const at::TensorIterator iterator = config.build();
  std::vector<at::Tensor> outs;
  for (size_t i = 0; i < program.outs.size(); ++i) {
    const at::Tensor& out = iterator.output(static_cast<int64_t>(i));
    outs.push_back(program.conditions[i] ? at::empty_like(out, at::kBool) : out);
  }
  return outs;
}

namespace {

std::vector<at::Tensor> pointwise_meta(at::TensorList operands, std::string_view text) {
  const auto program = program_of(text, operands.size());
  const at::SymDimVector shape = shape_of(operands);
  const bool is_symbolic = std::any_of(shape.begin(), shape.end(),
                                       [](const c10::SymInt& size) { return size.is_symbolic(); });
  return is_symbolic ? dense_outs(*program, operands) : new_outs(*program, operands);
}

void pointwise_into_meta(at::TensorList operands, std::string_view text, at::TensorList outs) {
  check_outs(*program_of(text, operands.size()), operands, outs);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("pointwise(Tensor[] operands, str program) -> Tensor[]");
  m.def("pointwise_into(Tensor[] operands, str program, Tensor(a!)[] outs) -> ()");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("pointwise", pointwise_meta);
  m.impl("pointwise_into", pointwise_into_meta);
}

}  // namespace smex::kernels
