#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace smex::runtime {

/// torch's type of this name, such as "float32"; Undefined for "". Throws InternalError.
c10::ScalarType parse_dtype(const std::string& name);

}  // namespace smex::runtime
