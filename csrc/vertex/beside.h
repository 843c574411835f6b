// Whether the tasks of a stage run beside each other, a thread each, or one after the other, each
// with all threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace smex::vertex {

/// From so many multiplications on, a task alone keeps a further thread busy.
constexpr double kWorkOfThread = 1e6;

/// The tasks that each thread runs, given the multiplications of each task; empty where it takes no
/// longer to run one task after the other. The largest come first, each to the thread that is free
/// first (Graham 1969, Bounds on multiprocessing timing anomalies). Deterministic.
std::vector<std::vector<size_t>> tasks_of_threads(std::span<const double> work, int threads);

}  // namespace smex::vertex
