#pragma once

#include <cstdint>

#include "edges/rows.h"

struct CUstream_st;

// As graph/compress/cuda/compress.h: pointers are the device's, work is queued on `stream`.
namespace smex::graph {

/// `find_sorted`; a row that is not valid has no edges, and the least position of one, or `count`,
/// goes to `*invalid`.
template <typename Index>
void find_sorted_cuda(const EdgeRows<Index>& rows, const Index* from, const Index* to,
                      int64_t count, Index* first, Index* found, int64_t* invalid,
                      CUstream_st* stream);

}  // namespace smex::graph
