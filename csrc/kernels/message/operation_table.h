#pragma once

#include <span>
#include <string_view>

#include "kernels/message/operations.h"

namespace smex::kernels {

/// What is known of an operation beside its arithmetic, as operations.def says it.
struct Operation {
  MessageOp op = MessageOp::kConstant;
  const char* name = "";
  const char* sign = "";      ///< what it is written with in a message; empty: as a function
  int arguments = 1;          ///< the number of them
  bool takes_number = false;  ///< the second argument has to be a constant
  bool is_elementwise = true;
  bool in_messages = true;    ///< not in programs alone
  bool has_gradient = true;   ///< one that is not 0 throughout
  const char* torch = "";     ///< torch's operator of this meaning; empty where there is none
  bool is_condition = false;  ///< that gives bool, where 1 and 0 are meant
};

/// All operations in the order of operations.def.
std::span<const Operation> operations();

/// The operation of that name, null where there is none.
const Operation* find_operation(std::string_view name);

/// Not for kOperand and kConstant.
const Operation& operation_of(MessageOp op);

}  // namespace smex::kernels
