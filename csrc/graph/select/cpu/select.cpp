#include "graph/select/select.h"

#include <algorithm>
#include <atomic>

namespace smex::graph {
namespace {

// Edges that are worth a thread.
constexpr int64_t kGrain = 1 << 15;

/// Divides `offsets[count]` output positions among workers: `body(i, begin, end)` for the part
/// [begin, end) of the i-th row. A row of many edges is shared.
template <typename Body>
void for_positions(const int64_t* offsets, int64_t count, const Workers& workers,
                   const Body& body) {
  workers.for_ranges(offsets[count], kGrain, [&](int64_t, int64_t begin, int64_t end) {
    int64_t i = std::upper_bound(offsets, offsets + count + 1, begin) - offsets - 1;
    for (; begin < end; ++i) {
      const int64_t stop = std::min(end, offsets[i + 1]);
      body(i, begin - offsets[i], stop - offsets[i]);
      begin = stop;
    }
  });
}

}  // namespace

template <typename Index>
int64_t row_offsets(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
                    int64_t* offsets) {
  offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!rows.is_valid(chosen[i])) return i;
    offsets[i + 1] = offsets[i] + rows.end(chosen[i]) - rows.begin(chosen[i]);
  }
  return -1;
}

template <typename Index>
void take_rows(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
               const int64_t* offsets, Index* columns, Index* owners, Index* eids,
               const Workers& workers) {
  for_positions(offsets, count, workers, [&](int64_t i, int64_t begin, int64_t end) {
    const int64_t from = rows.begin(chosen[i]), to = offsets[i];
    std::copy(rows.indices + from + begin, rows.indices + from + end, columns + to + begin);
    std::fill(owners + to + begin, owners + to + end, chosen[i]);
    for (int64_t k = begin; k < end; ++k) eids[to + k] = rows.eid(from + k);
  });
}

template <typename Index>
int64_t induced_offsets(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
                        const Index* names, int64_t num_columns, int64_t* offsets,
                        const Workers& workers) {
  std::atomic<int64_t> invalid{-1};
  offsets[0] = 0;
  // Chosen rows are taken in blocks, since one may have most of the edges.
  constexpr int64_t kBlock = 64;
  workers.for_each((count + kBlock - 1) / kBlock, [&](int64_t, int64_t block) {
    for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      offsets[i + 1] = 0;
      if (!rows.is_valid(chosen[i])) {
        invalid = i;
        continue;
      }
      for (int64_t p = rows.begin(chosen[i]); p < rows.end(chosen[i]); ++p) {
        const auto column = static_cast<uint64_t>(rows.indices[p]);
        if (column >= static_cast<uint64_t>(num_columns)) {
          invalid = i;
          break;
        }
        offsets[i + 1] += names[column] >= 0;
      }
    }
  });
  for (int64_t i = 0; i < count; ++i) offsets[i + 1] += offsets[i];
  return invalid;
}

template <typename Index>
void take_induced(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
                  const Index* names, const int64_t* offsets, Index* owners, Index* columns,
                  Index* eids, const Workers& workers) {
  constexpr int64_t kBlock = 64;
  workers.for_each((count + kBlock - 1) / kBlock, [&](int64_t, int64_t block) {
    for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      int64_t to = offsets[i];
      for (int64_t p = rows.begin(chosen[i]); p < rows.end(chosen[i]); ++p) {
        const Index name = names[rows.indices[p]];
        if (name < 0) continue;
        owners[to] = static_cast<Index>(i);
        columns[to] = name;
        eids[to] = rows.eid(p);
        ++to;
      }
    }
  });
}

#define SMEX_INSTANTIATE(Index)                                                                  \
  template int64_t row_offsets<Index>(const EdgeRows<Index>&, const Index*, int64_t, int64_t*);  \
  template void take_rows<Index>(const EdgeRows<Index>&, const Index*, int64_t, const int64_t*,  \
                                 Index*, Index*, Index*, const Workers&);                        \
  template int64_t induced_offsets<Index>(const EdgeRows<Index>&, const Index*, int64_t,         \
                                          const Index*, int64_t, int64_t*, const Workers&);      \
  template void take_induced<Index>(const EdgeRows<Index>&, const Index*, int64_t, const Index*, \
                                    const int64_t*, Index*, Index*, Index*, const Workers&);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
