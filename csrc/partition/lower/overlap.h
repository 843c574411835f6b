#pragma once

#include <set>
#include <string>

#include "partition/lower/program.h"

namespace smex {

/// Lets workers compute while tiles of others are on their way: fetches stay where they are, so that
/// what they need is asked for as early as before, but become due at the instruction that reads what
/// they bring (FetchInstr::due).
///
/// Tiles that are read so late are kept as long. Where that would raise a worker's peak
/// (`peak_bytes`), fetches are due sooner again, those of the most bytes first, so that no peak is
/// higher than it was. Outputs of the operators in `views` share the memory of their first operand.
void overlap(Program& program, const std::set<std::string>& views);

}  // namespace smex
