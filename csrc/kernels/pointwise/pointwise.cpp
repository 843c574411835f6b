// smex::pointwise: several element-wise calls as one operator (program.h).
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/pointwise/program.h"

#ifdef SMEX_WITH_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/pointwise/cuda/pointwise.h"
#endif

namespace smex::kernels {
namespace {

constexpr const char* kOp = "smex::pointwise";

// Numbers that are worth a thread.
constexpr int64_t kGrainSize = 16384;

/// The program of a text, parsed once.
std::shared_ptr<const PointwiseProgram> program_of(const std::string& text, size_t num_operands) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const PointwiseProgram>> known;
  const std::string key = std::to_string(num_operands) + ":" + text;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& found = known[key];
  if (!found) {
    try {
      found =
          std::make_shared<PointwiseProgram>(parse_pointwise(text, static_cast<int>(num_operands)));
    } catch (const std::invalid_argument& error) {
      known.erase(key);
      TORCH_CHECK_VALUE(false, kOp, ": ", error.what());
    }
  }
  return found;
}

/// The shape of all results, to which all operands broadcast.
at::SymDimVector shape_of(at::TensorList operands) {
  TORCH_CHECK_VALUE(!operands.empty(), kOp, ": expected at least one operand, found none");
  const at::Tensor* widest = &operands[0];
  for (const at::Tensor& operand : operands) {
    TORCH_CHECK_TYPE(
        operand.is_floating_point() && operand.scalar_type() == operands[0].scalar_type(), kOp,
        ": expected operands of one floating point type, found ", operands[0].scalar_type(),
        " and ", operand.scalar_type());
    TORCH_CHECK_VALUE(operand.device() == operands[0].device(), kOp,
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
      TORCH_CHECK_VALUE(size == 1 || size == own, kOp, ": expected operands that broadcast, found ",
                        operand.sym_sizes(), " and ", widest->sym_sizes());
      size = own;
    }
  }
  return shape;
}

void check_outs(const PointwiseProgram& program, at::TensorList operands, at::TensorList outs) {
  TORCH_CHECK_VALUE(outs.size() == program.outs.size(), kOp, ": expected ", program.outs.size(),
                    " results, found ", outs.size());
  const at::SymDimVector shape = shape_of(operands);
  for (const at::Tensor& out : outs) {
    TORCH_CHECK_VALUE(out.sym_sizes() == c10::SymIntArrayRef(shape), kOp,
                      ": expected a result of shape ", c10::SymIntArrayRef(shape), ", found ",
                      out.sym_sizes());
    TORCH_CHECK_TYPE(out.scalar_type() == operands[0].scalar_type(), kOp,
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

// ---- by ATen's operators, for any device and type ----

void pointwise_into(at::TensorList operands, std::string_view text, at::TensorList outs) {
  const auto program = program_of(std::string(text), operands.size());
  check_outs(*program, operands, outs);
  std::vector<at::Tensor> slots(program->num_slots);
  std::copy(operands.begin(), operands.end(), slots.begin());
  const at::Tensor none;
  for (const Instruction& step : program->code) {
    slots[step.out] = step.op == MessageOp::kConstant
                          ? at::scalar_tensor(step.value, operands[0].options())
                          : call_torch(step.op, step.a < 0 ? none : slots[step.a],
                                       step.b < 0 ? none : slots[step.b], step.value);
  }
  std::vector<at::Tensor> values;
  for (const int out : program->outs) values.push_back(slots[out]);
  for (size_t i = 0; i < outs.size(); ++i) outs[i].copy_(values[i]);
}

std::vector<at::Tensor> pointwise(at::TensorList operands, std::string_view text) {
  const auto program = program_of(std::string(text), operands.size());
  std::vector<at::Tensor> outs = empty_outs(*program, operands);
  pointwise_into(operands, text, outs);
  return outs;
}

std::vector<at::Tensor> pointwise_meta(at::TensorList operands, std::string_view text) {
  return empty_outs(*program_of(std::string(text), operands.size()), operands);
}

void pointwise_into_meta(at::TensorList operands, std::string_view text, at::TensorList outs) {
  check_outs(*program_of(std::string(text), operands.size()), operands, outs);
}

// ---- by kernels of the CPU and of CUDA ----

/// Whether the elements of a row follow one another.
bool has_dense_rows(const at::Tensor& x) {
  int64_t stride = 1;
  for (int64_t d = x.dim() - 1; d > 0; --d) {
    if (x.size(d) != 1 && x.stride(d) != stride) return false;
    stride *= x.size(d);
  }
  return true;
}

/// Operands as matrices `[rows, width]`, in memory of their own where it has to be.
template <typename T>
struct Matrices {
  std::vector<at::Tensor> kept;
  std::vector<PointwiseOperand<T>> operands;

  void add(const at::Tensor& x, at::IntArrayRef shape) {
    const auto dims = static_cast<int64_t>(shape.size());
    const bool is_row = x.dim() == dims;
    const at::IntArrayRef tail = x.sizes().slice(is_row ? 1 : 0);
    const bool has_rows = is_row && x.size(0) == shape[0];
    PointwiseOperand<T> operand;
    if (x.numel() == 1 || (has_rows && x.numel() == shape[0])) {
      kept.push_back(x);
      operand.column_stride = 0;
      operand.row_stride = x.numel() == 1 ? 0 : x.stride(0);
    } else if (x.dim() >= dims - 1 && tail == shape.slice(1) && (has_rows || !is_row)) {
      const bool is_dense = is_row ? has_dense_rows(x) : x.is_contiguous();
      kept.push_back(is_dense ? x : x.contiguous());
      operand.row_stride = is_row ? kept.back().stride(0) : 0;
    } else {
      kept.push_back(x.expand(shape).contiguous());
      operand.row_stride = kept.back().stride(0);
    }
    operand.data = data_of<T>(kept.back());
    operands.push_back(operand);
  }
};

bool has_kernel(const PointwiseProgram& program, at::TensorList outs) {
  const at::Tensor& first = outs[0];
  const at::ScalarType type = first.scalar_type();
  if (first.dim() == 0 || !std::all_of(outs.begin(), outs.end(), has_dense_rows)) return false;
  const bool is_wide = type == at::kFloat || type == at::kDouble;
#ifdef SMEX_WITH_CUDA
  if (first.is_cuda())
    return (is_wide || type == at::kHalf || type == at::kBFloat16) && fits_device(program);
#endif
  static_cast<void>(program);
  return is_wide;
}

template <typename T>
void run_on_cpu(const PointwiseTask<T>& task, int64_t rows, int64_t width) {
  const PointwiseProgram& program = *task.program;
  // Where every row begins behind the one before, all are one row, which threads divide better.
  bool is_one_row = true;
  for (int i = 0; i < program.num_operands; ++i) {
    const PointwiseOperand<T>& operand = task.operands[i];
    is_one_row &= operand.row_stride == width * operand.column_stride;
  }
  for (size_t i = 0; i < program.outs.size(); ++i) is_one_row &= task.outs[i].row_stride == width;
  if (is_one_row) {
    at::parallel_for(0, rows * width, kGrainSize, [&](int64_t begin, int64_t end) {
      SMEX_PICK(run_pointwise<T>)(task, 0, 1, begin, end);
    });
    return;
  }
  at::parallel_for(
      0, rows, std::max<int64_t>(1, kGrainSize / width),
      [&](int64_t begin, int64_t end) { SMEX_PICK(run_pointwise<T>)(task, begin, end, 0, width); });
}

void pointwise_into_by_kernel(at::TensorList operands, std::string_view text, at::TensorList outs) {
  const auto program = program_of(std::string(text), operands.size());
  check_outs(*program, operands, outs);
  if (!has_kernel(*program, outs)) return pointwise_into(operands, text, outs);
  const at::Tensor& first = outs[0];
  if (first.numel() == 0) return;
  const int64_t rows = first.size(0), width = first.numel() / rows;
  dispatch_features(kOp, first.scalar_type(), [&](auto feature) {
    using T = typename decltype(feature)::type;
    Matrices<T> of;
    for (const at::Tensor& operand : operands) of.add(operand, first.sizes());
    std::vector<PointwiseOut<T>> to;
    for (const at::Tensor& out : outs) to.push_back({mutable_data_of<T>(out), out.stride(0)});
    const PointwiseTask<T> task{program.get(), of.operands.data(), to.data()};
#ifdef SMEX_WITH_CUDA
    if (first.is_cuda()) {
      const c10::cuda::CUDAGuard guard(first.device());
      pointwise_cuda(task, rows, width, c10::cuda::getCurrentCUDAStream().stream());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      return;
    }
#endif
    if constexpr (std::is_floating_point_v<T>) run_on_cpu(task, rows, width);
  });
}

std::vector<at::Tensor> pointwise_by_kernel(at::TensorList operands, std::string_view text) {
  const auto program = program_of(std::string(text), operands.size());
  std::vector<at::Tensor> outs = empty_outs(*program, operands);
  pointwise_into_by_kernel(operands, text, outs);
  return outs;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("pointwise(Tensor[] operands, str program) -> Tensor[]");
  m.def("pointwise_into(Tensor[] operands, str program, Tensor(a!)[] outs) -> ()");
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("pointwise", pointwise);
  m.impl("pointwise_into", pointwise_into);
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("pointwise", pointwise_by_kernel);
  m.impl("pointwise_into", pointwise_into_by_kernel);
}

#ifdef SMEX_WITH_CUDA
TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("pointwise", pointwise_by_kernel);
  m.impl("pointwise_into", pointwise_into_by_kernel);
}
#endif

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("pointwise", pointwise_meta);
  m.impl("pointwise_into", pointwise_into_meta);
}

}  // namespace smex::kernels
