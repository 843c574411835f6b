#pragma once

#include <cstdint>

#include "edges/rows.h"
#include "graph/compress/compress.h"
#include "graph/cuda/memory.h"

struct CUstream_st;

// The algorithms on the device: pointers are the device's, work is queued on `stream`, launch
// errors are the caller's to check. Index: int32_t or int64_t; 64-bit safe in edges and rows.
namespace smex::graph {

/// `compress_cpu` by a stable radix sort of positions by row. Edges must be valid.
template <typename Index>
void compress_cuda(const EdgeList<Index>& edges, const CompressedEdges<Index>& out,
                   const Allocate& allocate, CUstream_st* stream);

/// The least position of an edge that is not valid, or `num_edges`, to `*first`.
template <typename Index>
void first_invalid_cuda(const EdgeList<Index>& edges, int64_t* first, CUstream_st* stream);

/// `expand_cpu`; edge ids out of range are passed over.
template <typename Index>
void expand_cuda(const EdgeRows<Index>& from, Index* rows, Index* columns, CUstream_st* stream);

/// `count_cpu` into `result`, which is zero; the least position of an id out of range, or `count`,
/// to `*first`.
template <typename Index>
void count_cuda(const Index* ids, int64_t count, int64_t size, Index* result, int64_t* first,
                CUstream_st* stream);

}  // namespace smex::graph
