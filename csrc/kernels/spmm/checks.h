// What an operator checks of a call on every device.
#pragma once

#include <c10/util/StringUtil.h>

#include "kernels/message/expression.h"
#include "kernels/spmm/spmm.h"

namespace smex::kernels {

/// The reducer of a name: 'max' or 'min' for an extremum, else 'sum' or 'mean'.
Reduce reduce_of(const char* op, c10::string_view name, bool extremum);

/// The maximum or minimum of a row without edges.
double empty_value(Reduce reduce, bool zero_empty);

/// Refuses sums that are a part of a message only: which of several edges gave each part would not
/// be known.
void check_sums_at_root(const char* op, const Message& message, bool at_root = true);

}  // namespace smex::kernels
