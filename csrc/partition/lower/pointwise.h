#pragma once

#include "ir/graph.h"
#include "partition/lower/program.h"

namespace smex {

/// Makes one call of smex::pointwise of element-wise calls of which one reads what another makes,
/// so that what passes between them is never stored (Cavs §3.4). Their formulas are those of their
/// Specs. Calls of one shape and type are joined where the last of them stands, if nobody needs
/// anything earlier, and no more is held on the way than is no longer made. What other workers
/// fetch is made no later than they could have asked for it.
void join_pointwise(const Graph& graph, Program& program);

}  // namespace smex
