#include "graph/compress/cuda/compress.h"

#include <cub/device/device_radix_sort.cuh>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "graph/cuda/for_each.cuh"

namespace smex::graph {
namespace {

__device__ void add_one(int32_t* to) { atomicAdd(to, 1); }
__device__ void add_one(int64_t* to) { atomicAdd(reinterpret_cast<unsigned long long*>(to), 1ull); }

/// What a sort refuses by itself leaves no launch error behind.
void check_sorted(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("smex::compress_edges: sorting edges on the GPU failed: ") +
                           cudaGetErrorString(error));
}

/// At least one, since a sort wants a digit.
int bits_of(int64_t size) {
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) < size) ++bits;
  return bits;
}

}  // namespace

template <typename Index>
void first_invalid_cuda(const EdgeList<Index>& edges, int64_t* first, CUstream_st* stream) {
  set(first, edges.num_edges, stream);
  for_each(edges.num_edges, stream, [=] __device__(int64_t i) {
    const bool valid = is_in(edges.rows[i], edges.num_rows) &&
                       is_in(edges.columns[i], edges.num_columns) &&
                       (edges.ids == nullptr || is_in(edges.ids[i], edges.num_edges));
    if (!valid) keep_least(first, i);
  });
}

template <typename Index>
void compress_cuda(const EdgeList<Index>& edges, const CompressedEdges<Index>& out,
                   const Allocate& allocate, CUstream_st* stream) {
  using Key = std::make_unsigned_t<Index>;
  const int64_t size = edges.num_edges;
  const size_t bytes = static_cast<size_t>(size) * sizeof(Index);
  auto* const positions = static_cast<Index*>(allocate(bytes));
  auto* const order = static_cast<Index*>(allocate(bytes));
  auto* const sorted = static_cast<Key*>(allocate(bytes));
  for_each(size, stream, [=] __device__(int64_t i) { positions[i] = static_cast<Index>(i); });
  const auto* const keys = reinterpret_cast<const Key*>(edges.rows);
  size_t temporary_bytes = 0;
  void* temporary = nullptr;
  for (int pass = 0; pass < 2 && size > 0; ++pass) {  // the first says how much memory it needs
    if (pass == 1) temporary = allocate(temporary_bytes);
    check_sorted(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, keys, sorted,
                                                 positions, order, size, /*begin_bit=*/0,
                                                 /*end_bit=*/bits_of(edges.num_rows), stream));
  }
  for_each(size, stream, [=] __device__(int64_t i) {
    const Index from = order[i];
    out.indices[i] = edges.columns[from];
    out.eids[i] = edges.ids == nullptr ? from : edges.ids[from];
  });
  for_each(edges.num_rows + 1, stream, [=] __device__(int64_t row) {
    out.indptr[row] = static_cast<Index>(
        bound(reinterpret_cast<const Index*>(sorted), 0, size, row, /*after=*/false));
  });
}

template <typename Index>
void expand_cuda(const EdgeRows<Index>& from, Index* rows, Index* columns, CUstream_st* stream) {
  for_each(from.num_edges, stream, [=] __device__(int64_t p) {
    const int64_t row = bound(from.indptr, 0, from.num_rows + 1, p, /*after=*/true) - 1;
    const int64_t to = from.eids == nullptr ? p : static_cast<int64_t>(from.eids[p]);
    if (!is_in(to, from.num_edges)) return;
    rows[to] = static_cast<Index>(row);
    if (columns != nullptr) columns[to] = from.indices[p];
  });
}

template <typename Index>
void count_cuda(const Index* ids, int64_t count, int64_t size, Index* result, int64_t* first,
                CUstream_st* stream) {
  set(first, count, stream);
  for_each(count, stream, [=] __device__(int64_t i) {
    if (is_in(ids[i], size)) {
      add_one(result + ids[i]);
    } else {
      keep_least(first, i);
    }
  });
}

#define SMEX_INSTANTIATE(Index)                                                             \
  template void first_invalid_cuda<Index>(const EdgeList<Index>&, int64_t*, CUstream_st*);  \
  template void compress_cuda<Index>(const EdgeList<Index>&, const CompressedEdges<Index>&, \
                                     const Allocate&, CUstream_st*);                        \
  template void expand_cuda<Index>(const EdgeRows<Index>&, Index*, Index*, CUstream_st*);   \
  template void count_cuda<Index>(const Index*, int64_t, int64_t, Index*, int64_t*, CUstream_st*);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
