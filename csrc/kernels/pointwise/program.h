// Element-wise calls that are computed together, block by block, so that what passes from one to
// the next stays in the first-level cache (Cavs §3.4: fused operators).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/message/program.h"

namespace smex::kernels {

/// Instructions on slots. Slots below `num_operands` are the operands, which nothing writes. Where
/// an instruction lacks one of two arguments, that is its `value`. kSumLast of two is the sum of
/// their products.
struct PointwiseProgram {
  int num_operands = 0;
  int num_slots = 0;
  std::vector<Instruction> code;
  std::vector<int> outs;         ///< the slots of the results
  std::vector<bool> columns;     ///< for each result whether it is one column of its value
  std::vector<bool> conditions;  ///< and whether it is bool: where its number is not 0
  bool by_rows = false;  ///< some instruction needs rows as a whole, or a result is a column
};

/// Reads a program from `formulas > results`. Formulas are those of messages (expression.h),
/// separated by `;`, over values: the operands, then the values of the formulas in order. All
/// values have the shape that the operands broadcast to; `sum_last` and `max_last` fill each row
/// along its last dimension.
///
///   "sigmoid(x0); x2 * tanh(x1) > x3 x2"    two results, the second of which is sigmoid(x0)
///   "less(x0, x1); select(x2, x0) > x2? x3"    the first result is bool
///   "exp(x0); sum_last(x1); x1 / x2 > x3 x2:1"    the second result has one column
///
/// Throws std::invalid_argument that shows where the text is wrong.
PointwiseProgram parse_pointwise(const std::string& text, int num_operands);

// clang-format off
SMEX_FOR_EACH_ISA(
    /// Runs a program on `rows` rows of `columns` numbers. `data` has where the results and, behind
    /// them, the operands begin, `strides` the bytes from column to column of each, and behind these
    /// those from row to row; 0 repeats. Those of `bools`, in the same order, are bool, which are
    /// the numbers 0 and 1; the others are of type `T`. A result may lie in the memory of an operand
    /// of its type, element by element. Of a program by rows, rows are those of the last dimension.
    template <typename T>
    void run_pointwise(const PointwiseProgram& program, const std::vector<bool>& bools,
                       char* const* data, const int64_t* strides, int64_t columns, int64_t rows);
)
// clang-format on

}  // namespace smex::kernels
