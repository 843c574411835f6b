#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "partition/lower/program.h"
#include "partition/price/machine.h"

namespace smex {

/// By worker, list (forward, backward) and instruction: what the worker itself is busy with it.
using InstrSeconds = std::vector<std::array<std::vector<double>, 2>>;

/// As a machine tells: each call is the roofline of its tile, a fetch the copy of the worker's own
/// part; views and data that other calls read in place take no time.
InstrSeconds predicted_seconds(const Program& program, const Machine& machine,
                               const std::set<std::string>& views);

}  // namespace smex
