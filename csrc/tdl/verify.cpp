#include "tdl/verify.h"

#include "ir/error.h"
#include "tdl/spec.h"

namespace smex::tdl {

void verify_specs(const Graph& graph) {
  auto fail = [](const Op& op, const std::string& what) {
    throw InternalError("graph: op %" + std::to_string(op.id) + " (" + op.target + "): " + what);
  };
  for (const Op& op : graph.ops()) {
    if (!op.spec) continue;
    if (op.spec->input_shapes.size() != op.inputs.size()) {
      fail(op, "its spec describes " + std::to_string(op.spec->input_shapes.size()) +
                   " operands, the call has " + std::to_string(op.inputs.size()));
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Shape& shape = graph.value(op.inputs[i]).shape;
      if (op.spec->input_shapes[i] == shape) continue;
      fail(op, "operand " + std::to_string(i) +
                   " has another shape than its spec: " + Region::whole(shape).str() +
                   " != " + Region::whole(op.spec->input_shapes[i]).str());
    }
  }
}

}  // namespace smex::tdl
