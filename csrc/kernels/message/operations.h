#pragma once

#include <cstdint>

namespace smex::kernels {

/// What a node of a message computes from the values of its arguments: it is an operand, a constant
/// or one of the operations of operations.def, where each is one line.
enum class MessageOp : uint8_t {
  kOperand,
  kConstant,
#define SMEX_OP(id, ...) id,
#include "kernels/message/operations.def"
};

/// Whether the second argument of `op` has to be a constant.
bool takes_number(MessageOp op);

}  // namespace smex::kernels
