#pragma once

#include <string>
#include <vector>

#include "kernels/message/expression.h"

namespace smex::kernels {

/// The formulas of an element-wise program, and what of their values results.
struct PointwiseText {
  std::vector<Message> formulas;
  std::vector<int> results;
  std::vector<bool> conditions;  ///< for each result whether a `?` is behind it
};

/// Reads `formulas > results`, such as `sigmoid(x0); less(x2, x1) > x3? x2`. The formulas are those
/// of messages (expression.h) over values: the operands, then the values of the formulas in order.
/// Throws std::invalid_argument that shows where it went wrong.
PointwiseText parse_program(const std::string& text);

}  // namespace smex::kernels
