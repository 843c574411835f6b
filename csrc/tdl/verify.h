#pragma once

#include "ir/graph.h"

namespace smex::tdl {

/// Throws InternalError that names the op and operand where a spec describes other operands, or
/// other shapes, than its call has. The graph itself is well formed (Graph::verify).
void verify_specs(const Graph& graph);

}  // namespace smex::tdl
