// What the operators on messages have in common on torch's side: reading their arguments.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "edges/tensors.h"
#include "kernels/message/program.h"

namespace smex::kernels {

/// The message of a text, parsed once per text. Throws ValueError with `op`'s name.
Message message_of(const char* op, const std::string& text);

/// Checks `edges`, and number, types, devices and first dimensions of the operands; those of
/// sources where `out_edges` says how many there are. That `edges` name existing rows is for the
/// caller to see to.
void check_operands(const char* op, const Message& message, at::TensorList edges,
                    at::TensorList out_edges, at::TensorList operands);

std::vector<FeatureShape> feature_shapes(at::TensorList operands);

/// As the torch-free compile, with a ValueError that names `op`.
MessageProgram compile_for(const char* op, const Message& message, at::TensorList operands,
                           const std::optional<FeatureShape>& reduce_to = std::nullopt);

/// The shape of a result of so many rows, each a value of the program.
std::vector<int64_t> result_shape(int64_t rows, const MessageProgram& program);

/// The shape of a message's value, for sizes that may be symbols.
at::SymDimVector symbolic_shape(const char* op, const Message& message, at::TensorList operands);

/// The last feature dimensions; 1 where there is none.
std::vector<int64_t> last_sizes(at::TensorList operands);

}  // namespace smex::kernels
