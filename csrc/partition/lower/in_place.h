#pragma once

#include <set>
#include <string>

#include "partition/lower/program.h"

namespace smex {

/// Lets calls write results where later fetches would copy them to: the tile that a fetch assembles
/// is made before the call whose result is a part of it (`ComputeInstr::inside`), and the fetch
/// adds what comes from others. So the sources of a sum over edges, half of them a worker's own,
/// lie together without a copy of these.
///
/// For operators that write into a given tensor (`writes_into`), where the result is the whole of a
/// part, lies in one piece of the tile, and is not needed for longer. Not where a worker's peak
/// (`peak_bytes`) would be higher. Outputs of the operators in `views` share the memory of their
/// first operand.
void write_in_place(Program& program, const std::set<std::string>& views);

/// Gives each result memory of its own again.
void write_apart(Program& program);

/// Whether torch has a form of the operator that writes into a tensor, by a kernel of its own.
bool writes_into(const std::string& target);

}  // namespace smex
