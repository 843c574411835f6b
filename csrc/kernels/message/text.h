#pragma once

#include <string>
#include <vector>

#include "kernels/message/expression.h"

namespace smex::kernels {

/// The formulas of an element-wise program, and what of their values results.
struct PointwiseText {
  std::vector<Message> formulas;
  std::vector<int> results;
  std::vector<bool> columns;     ///< for each result whether a `:1` is behind it
  std::vector<bool> conditions;  ///< and whether a `?` is
};

/// Reads `formulas > results`, such as `sigmoid(x0); less(x2, x1); sum_last(x2) > x3? x2 x4:1`. The
/// formulas are those of messages (expression.h) over values: the operands, then the values of the
/// formulas in order. Throws std::invalid_argument that shows where it went wrong.
PointwiseText parse_program(const std::string& text);

}  // namespace smex::kernels
