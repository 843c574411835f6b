// Element-wise calls that are computed together, block by block, so that what passes from one to
// the next stays in the first-level cache (Cavs §3.4: fused operators).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/message/program.h"

namespace smex::kernels {

/// Instructions on slots. Slots below `num_operands` are the operands, which nothing writes.
struct PointwiseProgram {
  int num_operands = 0;
  int num_slots = 0;
  std::vector<Instruction> code;
  std::vector<int> outs;  ///< the slots of the results
};

/// Reads a program from `formulas > results`. Formulas are those of messages (expression.h),
/// separated by `;`, over values: the operands, then the values of the formulas in order. None adds
/// up over a dimension.
///
///   "sigmoid(x0); x2 * tanh(x1) > x3 x2"    two results, the second of which is sigmoid(x0)
///
/// Throws std::invalid_argument that shows where the text is wrong.
PointwiseProgram parse_pointwise(const std::string& text, int num_operands);

/// A matrix `[rows, width]`: `row_stride` 0 repeats a row, `column_stride` 0 a column.
template <typename T>
struct PointwiseOperand {
  const T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

template <typename T>
struct PointwiseOut {
  T* data = nullptr;
  int64_t row_stride = 0;
};

/// An out may lie in the memory of an operand, element by element.
template <typename T>
struct PointwiseTask {
  const PointwiseProgram* program = nullptr;
  const PointwiseOperand<T>* operands = nullptr;
  const PointwiseOut<T>* outs = nullptr;
};

// clang-format off
SMEX_FOR_EACH_ISA(
    /// The rows `begin` to `end`, and of these the columns `first` to `last`.
    template <typename T>
    void run_pointwise(const PointwiseTask<T>& task, int64_t begin, int64_t end, int64_t first,
                       int64_t last);
)
// clang-format on

}  // namespace smex::kernels
