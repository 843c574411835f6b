#pragma once

#include <cstdint>

#include "edges/rows.h"
#include "edges/workers.h"

namespace smex::graph {

/// Finds the edges from `from[i]` to `to[i]`, i below `count`, where the columns of every row
/// ascend: their positions are `first[i]` to `first[i] + found[i]`. Logarithmic in the row's
/// length. Returns the place of the first query whose row is not valid, or -1.
template <typename Index>
int64_t find_sorted(const EdgeRows<Index>& rows, const Index* from, const Index* to, int64_t count,
                    Index* first, Index* found, const Workers& workers);

/// The least edge id from `from[i]` to `to[i]`, or -1, in rows of any order: reads the whole row.
template <typename Index>
int64_t find_scan(const EdgeRows<Index>& rows, const Index* from, const Index* to, int64_t count,
                  Index* eids, const Workers& workers);

/// Whether two edges of a row have the same column; columns ascend.
template <typename Index>
bool has_parallel(const EdgeRows<Index>& rows, const Workers& workers);

/// Numbers the different (row, column) pairs in order, columns ascending: edge `eids[p]` gets
/// `groups[eids[p]]`. Returns how many there are, or -1 where an edge id is out of range.
template <typename Index>
int64_t number_pairs(const EdgeRows<Index>& rows, Index* groups);

/// Row, column and number of edges of each of these pairs.
template <typename Index>
void list_pairs(const EdgeRows<Index>& rows, Index* pair_rows, Index* pair_columns, Index* counts);

}  // namespace smex::graph
