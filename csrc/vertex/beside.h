// Whether the tasks of a stage run beside each other, a thread each, or one after the other, each
// with all threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace smex::vertex {

/// From so many multiplications on, a task alone keeps a further thread busy; measured, as the next
/// one, by benchmarks/vertex/several_types.py.
constexpr double kWorkOfThread = 4e6;

/// What a thread multiplies while another one starts on its task.
constexpr double kWorkOfStart = 5e4;

/// The tasks that each thread runs, given the multiplications of each task; empty where it takes no
/// longer to run one task after the other. The largest come first, each to the thread that is free
/// first (Graham 1969, Bounds on multiprocessing timing anomalies). Deterministic.
std::vector<std::vector<size_t>> tasks_of_threads(std::span<const double> work, int threads);

}  // namespace smex::vertex
