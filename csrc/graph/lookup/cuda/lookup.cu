#include "graph/lookup/cuda/lookup.h"

#include "graph/cuda/for_each.cuh"

namespace smex::graph {

template <typename Index>
void find_sorted_cuda(const EdgeRows<Index>& rows, const Index* from, const Index* to,
                      int64_t count, Index* first, Index* found, int64_t* invalid,
                      CUstream_st* stream) {
  set(invalid, count, stream);
  for_each(count, stream, [=] __device__(int64_t i) {
    first[i] = 0;
    found[i] = 0;
    const int64_t row = from[i];
    const int64_t begin = is_in(row, rows.num_rows) ? rows.indptr[row] : -1;
    const int64_t end = begin >= 0 ? rows.indptr[row + 1] : -1;
    if (begin < 0 || end < begin || end > rows.num_edges) {
      keep_least(invalid, i);
      return;
    }
    const int64_t left = bound(rows.indices, begin, end, to[i], /*after=*/false);
    first[i] = static_cast<Index>(left);
    found[i] = static_cast<Index>(bound(rows.indices, left, end, to[i], /*after=*/true) - left);
  });
}

#define SMEX_INSTANTIATE(Index)                                                             \
  template void find_sorted_cuda<Index>(const EdgeRows<Index>&, const Index*, const Index*, \
                                        int64_t, Index*, Index*, int64_t*, CUstream_st*);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
