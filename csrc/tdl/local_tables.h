#pragma once

#include <optional>
#include <vector>

#include "tdl/spec.h"

namespace smex::tdl {

/// By input what a kernel is given in a table's place when it computes a tile; nothing for what is
/// no table. `frames` has by input the region that its local tensor is: numbers become places in
/// it, and the bounds of rows count from the first of the tile's places (see "in_row").
/// Throws InternalError where one table would have to become two.
std::vector<std::optional<std::vector<int64_t>>> local_tables(const Spec& spec,
                                                              const IndexRanges& ranges,
                                                              const std::vector<Region>& frames);

}  // namespace smex::tdl
