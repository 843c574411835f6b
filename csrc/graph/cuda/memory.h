#pragma once

#include <cstddef>
#include <functional>

namespace smex::graph {

/// Device memory that lives until the queued work is done.
using Allocate = std::function<void*(size_t bytes)>;

}  // namespace smex::graph
