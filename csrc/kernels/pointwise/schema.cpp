// smex::pointwise: several element-wise calls as one operator (program.h).
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

/// The shape of all results, to which all operands broadcast.
at::SymDimVector shape_of(at::TensorList operands) {
  TORCH_CHECK_VALUE(!operands.empty(), kPointwise, ": expected at least one operand, found none");
  const at::Tensor* widest = &operands[0];
  for (const at::Tensor& operand : operands) {
    TORCH_CHECK_TYPE(
        operand.is_floating_point() && operand.scalar_type() == operands[0].scalar_type(),
        kPointwise, ": expected operands of one floating point type, found ",
        operands[0].scalar_type(), " and ", operand.scalar_type());
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

}  // namespace

std::shared_ptr<const PointwiseProgram> program_of(std::string_view text, size_t num_operands) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const PointwiseProgram>> known;
  const std::string key = std::to_string(num_operands) + ":" + std::string(text);
  const std::lock_guard<std::mutex> lock(mutex);
  auto& found = known[key];
  if (!found) {
    try {
      found = std::make_shared<PointwiseProgram>(
          parse_pointwise(std::string(text), static_cast<int>(num_operands)));
    } catch (const std::invalid_argument& error) {
      known.erase(key);
      TORCH_CHECK_VALUE(false, kPointwise, ": ", error.what());
    }
  }
  return found;
}

void check_outs(const PointwiseProgram& program, at::TensorList operands, at::TensorList outs) {
  TORCH_CHECK_VALUE(outs.size() == program.outs.size(), kPointwise, ": expected ",
                    program.outs.size(), " results, found ", outs.size());
  const at::SymDimVector shape = shape_of(operands);
  for (const at::Tensor& out : outs) {
    TORCH_CHECK_VALUE(out.sym_sizes() == c10::SymIntArrayRef(shape), kPointwise,
                      ": expected a result of shape ", c10::SymIntArrayRef(shape), ", found ",
                      out.sym_sizes());
    TORCH_CHECK_TYPE(out.scalar_type() == operands[0].scalar_type(), kPointwise,
                     ": expected a result of type ", operands[0].scalar_type(), ", found ",
                     out.scalar_type());
  }
}

std::vector<at::Tensor> empty_outs(const PointwiseProgram& program, at::TensorList operands) {
  const at::SymDimVector shape = shape_of(operands);
  std::vector<at::Tensor> outs;
  for (size_t i = 0; i < program.outs.size(); ++i)
    outs.push_back(at::empty_symint(shape, operands[0].options()));
  return outs;
}

bool has_dense_rows(const at::Tensor& x) {
  int64_t stride = 1;
  for (int64_t d = x.dim() - 1; d > 0; --d) {
    if (x.size(d) != 1 && x.stride(d) != stride) return false;
    stride *= x.size(d);
  }
  return true;
}

namespace {

std::vector<at::Tensor> pointwise_meta(at::TensorList operands, std::string_view text) {
  return empty_outs(*program_of(text, operands.size()), operands);
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
