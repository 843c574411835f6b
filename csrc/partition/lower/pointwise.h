#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "partition/lower/strides.h"

namespace smex {

/// Makes one call of smex::pointwise of element-wise calls of which one reads what another makes,
/// so that what passes between them is never stored (Cavs §3.4), and of neighbours that read the
/// same. Their formulas are those of their Specs. Calls of one shape, type and order of dimensions
/// in memory are joined where the last of them stands, if nobody needs anything earlier, or where
/// an earlier one does, if all that they read is there. No peak of memory grows, and what other
/// workers fetch waits for nothing but element-wise calls.
///
/// `strides` are those of every worker's slots. Outputs of the operators in `views` share the
/// memory of their first operand. Workers whose lists are alike share what is decided.
void join_pointwise(const Graph& graph, const std::vector<std::vector<Strides>>& strides,
                    const std::set<std::string>& views, Program& program);

}  // namespace smex
