#pragma once

#include <string>

#include "kernels/message/expression.h"

namespace smex::kernels {

/// The operation of a name, element by element, and the number of its arguments: the functions of
/// the text form other than `sum_last` and `dot`, and `add sub mul div neg constant`.
bool find_op(const std::string& name, MessageOp& op, int& arguments);

}  // namespace smex::kernels
