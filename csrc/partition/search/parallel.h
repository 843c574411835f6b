#pragma once

#include <cstddef>
#include <functional>

namespace smex {

/// Calls `task(i)` once for every i below `count`, by as many threads as the computer runs at once.
/// When all are done, throws what the first of the tasks that throw has thrown, by their number.
void for_all(size_t count, const std::function<void(size_t)>& task);

}  // namespace smex
