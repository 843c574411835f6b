#include "graph/lookup/lookup.h"

#include <algorithm>
#include <atomic>

namespace smex::graph {
namespace {

// Queries, and rows, that are worth a thread.
constexpr int64_t kQueries = 1 << 10;
constexpr int64_t kRows = 1 << 12;

}  // namespace

template <typename Index>
int64_t find_sorted(const EdgeRows<Index>& rows, const Index* from, const Index* to, int64_t count,
                    Index* first, Index* found, const Workers& workers) {
  std::atomic<int64_t> invalid{-1};
  workers.for_ranges(count, kQueries, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!rows.is_valid(from[i])) {
        invalid = i;
        return;
      }
      const auto range = std::equal_range(rows.indices + rows.begin(from[i]),
                                          rows.indices + rows.end(from[i]), to[i]);
      first[i] = static_cast<Index>(range.first - rows.indices);
      found[i] = static_cast<Index>(range.second - range.first);
    }
  });
  return invalid;
}

template <typename Index>
int64_t find_scan(const EdgeRows<Index>& rows, const Index* from, const Index* to, int64_t count,
                  Index* eids, const Workers& workers) {
  std::atomic<int64_t> invalid{-1};
  workers.for_each(count, [&](int64_t, int64_t i) {
    if (!rows.is_valid(from[i])) {
      invalid = i;
      return;
    }
    eids[i] = -1;
    for (int64_t p = rows.begin(from[i]); p < rows.end(from[i]); ++p) {
      if (rows.indices[p] != to[i]) continue;
      eids[i] = eids[i] < 0 ? rows.eid(p) : std::min(eids[i], rows.eid(p));
    }
  });
  return invalid;
}

template <typename Index>
bool has_parallel(const EdgeRows<Index>& rows, const Workers& workers) {
  std::atomic<bool> found{false};
  workers.for_ranges(rows.num_rows, kRows, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end && !found; ++r) {
      const Index* const last = rows.indices + rows.end(r);
      if (std::adjacent_find(rows.indices + rows.begin(r), last) != last) found = true;
    }
  });
  return found;
}

template <typename Index>
int64_t number_pairs(const EdgeRows<Index>& rows, Index* groups) {
  int64_t group = -1;
  for (int64_t r = 0; r < rows.num_rows; ++r) {
    for (int64_t p = rows.begin(r); p < rows.end(r); ++p) {
      group += p == rows.begin(r) || rows.indices[p] != rows.indices[p - 1];
      const int64_t eid = rows.eid(p);
      if (eid < 0 || eid >= rows.num_edges) return -1;
      groups[eid] = static_cast<Index>(group);
    }
  }
  return group + 1;
}

template <typename Index>
void list_pairs(const EdgeRows<Index>& rows, Index* pair_rows, Index* pair_columns, Index* counts) {
  int64_t group = -1;
  for (int64_t r = 0; r < rows.num_rows; ++r) {
    for (int64_t p = rows.begin(r); p < rows.end(r); ++p) {
      if (p == rows.begin(r) || rows.indices[p] != rows.indices[p - 1]) {
        ++group;
        pair_rows[group] = static_cast<Index>(r);
        pair_columns[group] = rows.indices[p];
        counts[group] = 0;
      }
      ++counts[group];
    }
  }
}

#define SMEX_INSTANTIATE(Index)                                                                    \
  template int64_t find_sorted<Index>(const EdgeRows<Index>&, const Index*, const Index*, int64_t, \
                                      Index*, Index*, const Workers&);                             \
  template int64_t find_scan<Index>(const EdgeRows<Index>&, const Index*, const Index*, int64_t,   \
                                    Index*, const Workers&);                                       \
  template bool has_parallel<Index>(const EdgeRows<Index>&, const Workers&);                       \
  template int64_t number_pairs<Index>(const EdgeRows<Index>&, Index*);                            \
  template void list_pairs<Index>(const EdgeRows<Index>&, Index*, Index*, Index*);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
