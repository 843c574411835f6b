#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tdl/spec.h"

namespace smex::tdl {

/// The element-wise function that a Spec describes, as a formula of smex::pointwise
/// (kernels/pointwise/program.h) of operands with these names: of `out[i, j] = x[i, j] * y[j]` with
/// the names x0 and x1 "x0 * x1". Nothing where the Spec is of another kind, with several outputs
/// among them, and where the kernel would take longer than the operator's own.
std::optional<std::string> formula(const Spec& spec, const std::vector<std::string>& names);

}  // namespace smex::tdl
