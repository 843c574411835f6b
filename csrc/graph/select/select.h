#pragma once

#include <cstdint>

#include "edges/rows.h"
#include "edges/workers.h"

namespace smex::graph {

/// Sums up how many edges the rows `chosen[0 .. count)` have: the edges of the i-th go to
/// `offsets[i]` to `offsets[i + 1]`. Returns the place of the first row that is not valid, or -1.
template <typename Index>
int64_t row_offsets(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
                    int64_t* offsets);

/// Copies the chosen rows one after another: `columns`, `owners` (the row itself) and `eids`, each
/// [offsets[count]].
template <typename Index>
void take_rows(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
               const int64_t* offsets, Index* columns, Index* owners, Index* eids,
               const Workers& workers);

/// Of the i-th chosen row keeps the edges whose column has a new name: counts them into
/// `offsets[i + 1] - offsets[i]`. `names [num_columns]`: the new name of a column, or -1. Returns
/// the place of the first row that is not valid or whose columns are not, or -1.
template <typename Index>
int64_t induced_offsets(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
                        const Index* names, int64_t num_columns, int64_t* offsets,
                        const Workers& workers);

/// Copies the edges that `induced_offsets` counted: `owners` are places in `chosen`, `columns` new
/// names.
template <typename Index>
void take_induced(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
                  const Index* names, const int64_t* offsets, Index* owners, Index* columns,
                  Index* eids, const Workers& workers);

}  // namespace smex::graph
