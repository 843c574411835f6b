#pragma once

#include <set>
#include <string>
#include <vector>

#include "partition/lower/program.h"

namespace smex {

/// Lets workers compute while tiles of others are on their way: fetches stay where they are, so
/// that what they need is asked for as early as before, but become due at the instruction that
/// reads what they bring (FetchInstr::due). Views of what they bring come as late, as they compute
/// nothing.
///
/// Tiles that are read so late are kept as long. Where that would raise a worker's peak
/// (`peak_bytes`), fetches are due sooner again, those of the most bytes first, so that no peak is
/// higher than it was. Outputs of the operators in `views` share the memory of their first operand.
void overlap(Program& program, const std::set<std::string>& views);

/// Makes each fetch due at once again.
void wait_at_once(Program& program);

/// The relayouts that move tiles between workers in one list, in the order in which links carry
/// them. It is theirs in the lists, but that what is made of a late fetch, which its sender has to
/// have finished first, lets a few other late ones pass, as far as all workers begin these before
/// they have to wait for it: a link has something to carry meanwhile.
std::vector<int> relayout_order(const Program& program, bool backward);

}  // namespace smex
