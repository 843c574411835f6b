#pragma once

#include <optional>
#include <vector>

#include "partition/search/within_memory.h"

namespace smex {

/// Numbers of the request's pins with which nothing keeps to its memory limit, while without any
/// one of them something does. They are the fewest where there are not too many ways to choose so
/// few. None where nothing fits without pins either.
std::vector<size_t> conflicting_pins(const Solver& solver);

/// More workers than those of `least`, with which something keeps to the memory limit; 0: not even
/// with four times what should do. Nothing: the machine has not so many, they are too many to try,
/// or shards exist for the workers that there are.
std::optional<int> enough_workers(const Solver& solver, FoundPlan& least);

}  // namespace smex
