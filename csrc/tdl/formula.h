#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tdl/spec.h"

namespace smex::tdl {

/// A formula of smex::pointwise (kernels/pointwise/program.h).
struct Formula {
  std::string text;
  int operations = 0;             ///< that are written; the kernel computes equal ones once
  bool has_exponentials = false;  ///< exp, sigmoid or tanh
};

/// The element-wise function that a Spec describes, of operands with these names: of
/// `out[i, j] = x[i, j] * y[j]` with the names x0 and x1 "(x0) * (x1)". Nothing where the Spec is
/// of another kind, has several outputs or does not read each operand, and where the kernel would
/// take longer than the operator's own.
std::optional<Formula> formula(const Spec& spec, const std::vector<std::string>& names);

}  // namespace smex::tdl
