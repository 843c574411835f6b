#include <algorithm>
#include <atomic>
#include <bit>

#include "graph/stream/stream.h"

namespace smex::graph {
namespace {

// Edges that are worth a thread.
constexpr int64_t kGrain = 1 << 15;
// So many edges later one's new numbers are read: a miss in the caches takes about as long.
constexpr int64_t kAhead = 16;
// Entries of the table that tells where a row's bucket is looked for.
constexpr int kTableBits = 12;

/// Finds the bucket of a row: a look into a table, and a search among the few buckets that are
/// left.
class BucketTable {
 public:
  explicit BucketTable(const std::vector<int64_t>& bounds)
      : bounds_(bounds),
        shift_(std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(bounds.back()))) -
                               kTableBits)) {
    for (int64_t slot = 0; slot <= (bounds.back() >> shift_) + 1; ++slot) {
      first_.push_back(find(slot << shift_, 0, static_cast<int64_t>(bounds.size()) - 2));
    }
  }

  int64_t of(int64_t row) const {
    const int64_t slot = row >> shift_;
    return find(row, first_[slot], first_[slot + 1]);
  }

 private:
  /// The last bucket from `low` to `high` that begins at or before the row; an empty one has the
  /// bound of the next.
  int64_t find(int64_t row, int64_t low, int64_t high) const {
    const auto begin = bounds_.begin();
    return std::upper_bound(begin + low + 1, begin + high + 1, row) - begin - 1;
  }

  const std::vector<int64_t>& bounds_;
  const int shift_;
  std::vector<int64_t> first_;
};

template <typename Index>
class Grouping {
 public:
  Grouping(const EdgeBlock<Index>& edges, const std::vector<int64_t>& bounds,
           const Workers& workers)
      : edges_(edges),
        bounds_(bounds),
        table_(bounds),
        num_buckets_(static_cast<int64_t>(bounds.size()) - 1),
        workers_(workers),
        bucket_of_(edges.num_edges),
        next_(workers.count * num_buckets_, 0) {}

  int64_t run(EdgeRecord* records, int64_t* order, int64_t* counts) {
    workers_.for_ranges(edges_.num_edges, kGrain, [&](int64_t worker, int64_t begin, int64_t end) {
      count(begin, end, next_.data() + worker * num_buckets_);
    });
    if (invalid_ < edges_.num_edges) return invalid_;
    int64_t place = 0;
    for (int64_t b = 0; b < num_buckets_; ++b) {
      const int64_t start = place;
      for (int64_t worker = 0; worker < workers_.count; ++worker) {
        int64_t& next = next_[worker * num_buckets_ + b];
        const int64_t own = next;
        next = place;
        place += own;
      }
      counts[b] = place - start;
    }
    workers_.for_ranges(edges_.num_edges, kGrain, [&](int64_t worker, int64_t begin, int64_t end) {
      put(begin, end, next_.data() + worker * num_buckets_, records, order);
    });
    return -1;
  }

 private:
  int64_t row_of(int64_t i) const {
    return edges_.new_rows ? edges_.new_rows[edges_.rows[i]] : edges_.rows[i];
  }

  /// Has the new number of a later edge's end come into the caches, if there is such an edge.
  static void ask_for(const int64_t* numbers, int64_t size, const Index* ids, int64_t i,
                      int64_t end) {
    if (numbers && i + kAhead < end) {
      const auto id = static_cast<uint64_t>(ids[i + kAhead]);
      if (id < static_cast<uint64_t>(size)) __builtin_prefetch(numbers + id);
    }
  }

  void count(int64_t begin, int64_t end, int64_t* counts) {
    for (int64_t i = begin; i < end; ++i) {
      if (static_cast<uint64_t>(edges_.rows[i]) >= static_cast<uint64_t>(edges_.num_rows) ||
          static_cast<uint64_t>(edges_.columns[i]) >= static_cast<uint64_t>(edges_.num_columns)) {
        for (int64_t seen = invalid_; i < seen && !invalid_.compare_exchange_weak(seen, i);) {
        }
        return;
      }
      ask_for(edges_.new_rows, edges_.num_rows, edges_.rows, i, end);
      const int64_t bucket = table_.of(row_of(i));
      bucket_of_[i] = static_cast<int32_t>(bucket);
      ++counts[bucket];
    }
  }

  void put(int64_t begin, int64_t end, int64_t* next, EdgeRecord* records, int64_t* order) const {
    for (int64_t i = begin; i < end; ++i) {
      ask_for(edges_.new_rows, edges_.num_rows, edges_.rows, i, end);
      ask_for(edges_.new_columns, edges_.num_columns, edges_.columns, i, end);
      const int64_t bucket = bucket_of_[i];
      const auto row = static_cast<uint64_t>(row_of(i) - bounds_[bucket]);
      const auto column = static_cast<uint64_t>(
          edges_.new_columns ? edges_.new_columns[edges_.columns[i]] : edges_.columns[i]);
      const int64_t place = next[bucket]++;
      records[place] = {row << EdgeRecord::kColumnBits | column, edges_.first_id + i};
      order[place] = i;
    }
  }

  const EdgeBlock<Index> edges_;
  const std::vector<int64_t>& bounds_;
  const BucketTable table_;
  const int64_t num_buckets_;
  const Workers& workers_;
  std::vector<int32_t> bucket_of_;
  std::vector<int64_t> next_;  // [worker][bucket]
  std::atomic<int64_t> invalid_{edges_.num_edges};
};

}  // namespace

template <typename Index>
int64_t bucket_edges(const EdgeBlock<Index>& edges, const std::vector<int64_t>& bounds,
                     EdgeRecord* records, int64_t* order, int64_t* counts, const Workers& workers) {
  return Grouping<Index>(edges, bounds, workers).run(records, order, counts);
}

int64_t order_bucket(const EdgeRecord* records, int64_t count, const int64_t* indptr,
                     int64_t num_rows, int64_t* columns, int64_t* ids, int64_t* order) {
  std::vector<int64_t> next(indptr, indptr + num_rows);
  const int64_t base = indptr[0];
  for (int64_t i = 0; i < count; ++i) {
    const EdgeRecord record = records[i];
    const int64_t row = record.row();
    if (row >= num_rows || next[row] >= indptr[row + 1]) return i;
    const int64_t place = next[row]++ - base;
    columns[place] = record.column();
    ids[place] = record.id;
    if (order) order[place] = i;
  }
  return -1;
}

template <typename Index>
int64_t add_counts(const Index* ids, int64_t count, int64_t size, int64_t* counts) {
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(ids[i]) >= static_cast<uint64_t>(size)) return i;
    ++counts[ids[i]];
  }
  return -1;
}

#define SMEX_INSTANTIATE(Index)                                                              \
  template int64_t bucket_edges<Index>(const EdgeBlock<Index>&, const std::vector<int64_t>&, \
                                       EdgeRecord*, int64_t*, int64_t*, const Workers&);     \
  template int64_t add_counts<Index>(const Index*, int64_t, int64_t, int64_t*);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
