#pragma once

#include <string>
#include <vector>

#include "partition/lower/program.h"
#include "partition/plan/layout.h"

namespace smex {

/// Adds a slot to a worker, for a value of this name and bytes per element.
Slot add_slot(WorkerProgram& program, const std::string& name, int itemsize);

/// Gives a fetch of `worker`, which assembles `frame`, its parts: those of `copies` that are meant
/// for that worker, out of tiles that lie as `have` in `slots`. Counts it among the readers of
/// other workers' slots.
void add_parts(FetchInstr& fetch, int worker, const Region& frame, const std::vector<Copy>& copies,
               const Layout& have, const std::vector<Slot>& slots, Program& program);

}  // namespace smex
