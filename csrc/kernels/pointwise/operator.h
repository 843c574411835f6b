// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/message/dispatch.h"
#include "kernels/pointwise/program.h"

namespace smex::kernels {

constexpr const char* kPointwise = "smex::pointwise";

/// The program of a text, parsed once.
std::shared_ptr<const PointwiseProgram> program_of(std::string_view text, size_t num_operands);

/// Checks the operands, and that results have their common shape and type.
void check_outs(const PointwiseProgram& program, at::TensorList operands, at::TensorList outs);

/// Checks the operands and makes the results, not initialised.
std::vector<at::Tensor> empty_outs(const PointwiseProgram& program, at::TensorList operands);

/// By ATen's operators, for any device and type.
void pointwise_into(at::TensorList operands, std::string_view text, at::TensorList outs);

/// Whether the elements of a row follow one another.
bool has_dense_rows(const at::Tensor& x);

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

/// The operators by a kernel: `Kernel::takes(program, type)` says which programs it takes, and
/// `Kernel()(task, rows, width, like)` runs one where `like` is.
template <typename Kernel>
struct PointwiseBy {
  static void into(at::TensorList operands, std::string_view text, at::TensorList outs) {
    const auto program = program_of(text, operands.size());
    check_outs(*program, operands, outs);
    const at::Tensor& first = outs[0];
    const bool is_matrix = first.dim() > 0 && std::all_of(outs.begin(), outs.end(), has_dense_rows);
    if (!is_matrix || !Kernel::takes(*program, first.scalar_type()))
      return pointwise_into(operands, text, outs);
    if (first.numel() == 0) return;
    const int64_t rows = first.size(0), width = first.numel() / rows;
    dispatch_features(kPointwise, first.scalar_type(), [&](auto feature) {
      using T = typename decltype(feature)::type;
      Matrices<T> of;
      for (const at::Tensor& operand : operands) of.add(operand, first.sizes());
      std::vector<PointwiseOut<T>> to;
      for (const at::Tensor& out : outs) to.push_back({mutable_data_of<T>(out), out.stride(0)});
      const PointwiseTask<T> task{program.get(), of.operands.data(), to.data()};
      Kernel()(task, rows, width, first);
    });
  }

  static std::vector<at::Tensor> call(at::TensorList operands, std::string_view text) {
    std::vector<at::Tensor> outs = empty_outs(*program_of(text, operands.size()), operands);
    into(operands, text, outs);
    return outs;
  }
};

}  // namespace smex::kernels
