#pragma once

#include <pybind11/pybind11.h>

#include "ir/graph.h"

namespace smex::bindings {

/// An operator's argument as Python gives it: ValueRef, None, bool, int, float, str or a list of
/// one of them. None within a list of ValueRef is an absent operand.
Attr to_attr(const pybind11::handle& arg);

}  // namespace smex::bindings
