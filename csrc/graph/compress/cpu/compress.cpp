#include "graph/compress/compress.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace smex::graph {
namespace {

// Fewer edges fit the first-level caches: ordered at once, in one thread.
constexpr int64_t kSmall = 1 << 13;
// Edges of a bucket, of 8 bytes read and 8 written: a quarter of a second-level cache of 1 MiB.
constexpr int64_t kBucketEdges = 1 << 14;
// With fewer buckets, edges that follow each other often meet in one, and each waits for the place
// that the one before has just written: measured at twice the time with 49 buckets.
constexpr int kMinBucketBits = 8;
// A core writes to so many places at once before it runs out of address translations.
constexpr int kMaxBucketBits = 11;
// Edges that are worth a thread.
constexpr int64_t kGrain = 1 << 15;

int bits_of(int64_t size) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(size, 1) - 1));
}

/// Memory whose content does not matter.
template <typename T>
std::unique_ptr<T[]> uninitialized(int64_t size) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(size)]);
}

/// An edge inside of a bucket in one word: row within the bucket, column, id.
struct PackedRecord {
  using Word = uint64_t;
  int column_bits;
  int id_bits;

  Word make(uint64_t row, uint64_t column, uint64_t id) const {
    return (row << (column_bits + id_bits)) | (column << id_bits) | id;
  }
  uint64_t row(Word word) const { return word >> (column_bits + id_bits); }
  uint64_t column(Word word) const {
    return (word >> id_bits) & ((uint64_t{1} << column_bits) - 1);
  }
  uint64_t id(Word word) const { return word & ((uint64_t{1} << id_bits) - 1); }
};

/// The same in three words, for graphs whose numbers have more than 64 bits together.
struct WideRecord {
  struct Word {
    uint64_t row, column, id;
  };

  Word make(uint64_t row, uint64_t column, uint64_t id) const { return {row, column, id}; }
  uint64_t row(const Word& word) const { return word.row; }
  uint64_t column(const Word& word) const { return word.column; }
  uint64_t id(const Word& word) const { return word.id; }
};

/// Rows `b << shift` to `(b + 1) << shift` are bucket b.
struct Buckets {
  int shift;
  int64_t count;

  static Buckets make(int64_t num_rows, int64_t num_edges) {
    const int bits =
        std::clamp(bits_of(num_edges / kBucketEdges + 1), kMinBucketBits, kMaxBucketBits);
    const int shift = std::max(0, bits_of(num_rows) - bits);
    return {shift, ((num_rows - 1) >> shift) + 1};
  }
};

template <typename Index>
int64_t first_invalid(const EdgeList<Index>& edges) {
  for (int64_t i = 0; i < edges.num_edges; ++i) {
    if (!edges.is_valid(i)) return i;
  }
  return -1;
}

/// Counting sort as in the textbook.
template <typename Index>
int64_t compress_small(const EdgeList<Index>& edges, const CompressedEdges<Index>& out) {
  const int64_t invalid = first_invalid(edges);
  if (invalid >= 0) return invalid;
  Index* const next = out.indptr + 1;  // becomes each row's end as its edges are placed
  std::fill_n(out.indptr, edges.num_rows + 1, Index{0});
  if (edges.num_rows == 0) return -1;
  // Counted one place further on, so that the sums are starts and not ends.
  for (int64_t i = 0; i < edges.num_edges; ++i) {
    if (edges.rows[i] + 1 < edges.num_rows) ++next[edges.rows[i] + 1];
  }
  for (int64_t r = 1; r < edges.num_rows; ++r) next[r] += next[r - 1];
  for (int64_t i = 0; i < edges.num_edges; ++i) {
    const Index position = next[edges.rows[i]]++;
    out.indices[position] = edges.columns[i];
    out.eids[position] = edges.ids ? edges.ids[i] : static_cast<Index>(i);
  }
  return -1;
}

// Where records lie until their bucket is ordered. Packed ones take the place of the result, which
// has as many bits: new memory costs more to touch for the first time than to sort.

/// Packed records of 64-bit ids lie where the edge ids will.
struct WholeRecords {
  uint64_t* words;

  explicit WholeRecords(const CompressedEdges<int64_t>& out, int64_t)
      : words(reinterpret_cast<uint64_t*>(out.eids)) {}
  void put(int64_t position, uint64_t word) const { words[position] = word; }
  uint64_t get(int64_t position) const { return words[position]; }
};

/// Packed records of 32-bit ids lie half where the columns will and half where the edge ids will.
struct HalvedRecords {
  uint32_t* low;
  uint32_t* high;

  explicit HalvedRecords(const CompressedEdges<int32_t>& out, int64_t)
      : low(reinterpret_cast<uint32_t*>(out.indices)),
        high(reinterpret_cast<uint32_t*>(out.eids)) {}
  void put(int64_t position, uint64_t word) const {
    low[position] = static_cast<uint32_t>(word);
    high[position] = static_cast<uint32_t>(word >> 32);
  }
  uint64_t get(int64_t position) const {
    return low[position] | (static_cast<uint64_t>(high[position]) << 32);
  }
};

/// Wide records need memory of their own.
struct WideRecords {
  std::unique_ptr<WideRecord::Word[]> words;

  template <typename Index>
  explicit WideRecords(const CompressedEdges<Index>&, int64_t size)
      : words(uninitialized<WideRecord::Word>(size)) {}
  void put(int64_t position, const WideRecord::Word& word) const { words[position] = word; }
  const WideRecord::Word& get(int64_t position) const { return words[position]; }
};

template <typename Index, typename Record, typename Records>
class BucketSort {
  using Word = typename Record::Word;

 public:
  BucketSort(const EdgeList<Index>& edges, const CompressedEdges<Index>& out,
             const Buckets& buckets, const Record& record, const Workers& workers)
      : edges_(edges),
        out_(out),
        buckets_(buckets),
        record_(record),
        records_(out, edges.num_edges),
        workers_(workers) {}

  bool run() {
    count();
    if (!is_valid_) return false;
    sum();
    distribute();
    if (!is_valid_) return false;
    order();
    return true;
  }

 private:
  /// Edges of each worker in each bucket, to `offsets_[worker][bucket]`.
  void count() {
    offsets_.assign(workers_.parts_of(edges_.num_edges, kGrain) * buckets_.count, 0);
    workers_.for_ranges(edges_.num_edges, kGrain, [&](int64_t worker, int64_t begin, int64_t end) {
      // Four counters of a bucket: an increment need not wait for the one before.
      constexpr int kLanes = 4;
      std::vector<int64_t> lanes(kLanes * buckets_.count, 0);
      const uint64_t last = static_cast<uint64_t>(edges_.num_rows) - 1;
      const Index* const rows = edges_.rows;
      const int shift = buckets_.shift;
      uint64_t largest = 0;
      const auto add = [&](int64_t i, int lane) {
        const uint64_t row = static_cast<uint64_t>(rows[i]);
        largest = std::max(largest, row);
        ++lanes[lane * buckets_.count + (std::min(row, last) >> shift)];
      };
      int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
      }
      for (; i < end; ++i) add(i, 0);
      if (largest > last) is_valid_ = false;
      for (size_t k = 0; k < lanes.size(); ++k) {
        offsets_[worker * buckets_.count + k % buckets_.count] += lanes[k];
      }
    });
  }

  /// Turns counts into the places of each worker's first edge in each bucket.
  void sum() {
    starts_.assign(buckets_.count + 1, 0);
    int64_t total = 0;
    for (int64_t b = 0; b < buckets_.count; ++b) {
      starts_[b] = total;
      for (size_t k = b; k < offsets_.size(); k += buckets_.count) {
        total += std::exchange(offsets_[k], total);
      }
    }
    starts_[buckets_.count] = total;
  }

  void distribute() {
    workers_.for_ranges(edges_.num_edges, kGrain, [&](int64_t worker, int64_t begin, int64_t end) {
      int64_t* const next = offsets_.data() + worker * buckets_.count;
      if (edges_.ids) {
        distribute(begin, end, next, [ids = edges_.ids](int64_t i) { return ids[i]; });
      } else {
        distribute(begin, end, next, [](int64_t i) { return i; });
      }
    });
  }

  template <typename IdOf>
  void distribute(int64_t begin, int64_t end, int64_t* next, const IdOf& id_of) {
    const EdgeList<Index> edges = edges_;
    const Record record = record_;
    const int shift = buckets_.shift;
    const uint64_t low = (uint64_t{1} << shift) - 1;
    const Records& records = records_;
    uint64_t largest_column = 0, largest_id = 0;
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t row = static_cast<uint64_t>(edges.rows[i]);
      const uint64_t column = static_cast<uint64_t>(edges.columns[i]);
      const uint64_t id = static_cast<uint64_t>(id_of(i));
      largest_column = std::max(largest_column, column);
      largest_id = std::max(largest_id, id);
      records.put(next[row >> shift]++, record.make(row & low, column, id));
    }
    if (largest_column >= static_cast<uint64_t>(edges.num_columns) ||
        largest_id >= static_cast<uint64_t>(edges.num_edges)) {
      is_valid_ = false;
    }
  }

  struct Local {
    std::vector<int64_t> next;        // of each row of the bucket
    std::unique_ptr<Word[]> ordered;  // the bucket's records by row
    int64_t capacity = 0;
  };

  void order() {
    std::vector<Local> locals(workers_.count);
    workers_.for_each(buckets_.count, [&](int64_t worker, int64_t b) { order(b, locals[worker]); });
    out_.indptr[edges_.num_rows] = static_cast<Index>(edges_.num_edges);
  }

  void order(int64_t bucket, Local& local) {
    const int64_t start = starts_[bucket], count = starts_[bucket + 1] - start;
    if (count > local.capacity) {
      local.ordered = uninitialized<Word>(count);
      local.capacity = count;
    }
    const int64_t first_row = bucket << buckets_.shift;
    const int64_t num_rows = std::min(int64_t{1} << buckets_.shift, edges_.num_rows - first_row);
    local.next.assign(num_rows, 0);
    int64_t* const next = local.next.data();
    const Record record = record_;
    for (int64_t i = start; i < start + count; ++i) ++next[record.row(records_.get(i))];
    int64_t position = 0;
    for (int64_t r = 0; r < num_rows; ++r) {
      out_.indptr[first_row + r] = static_cast<Index>(start + position);
      position += std::exchange(next[r], position);
    }
    Word* const ordered = local.ordered.get();
    for (int64_t i = start; i < start + count; ++i) {
      const Word word = records_.get(i);
      ordered[next[record.row(word)]++] = word;
    }
    Index* const indices = out_.indices + start;
    Index* const eids = out_.eids + start;
    for (int64_t i = 0; i < count; ++i) {
      indices[i] = static_cast<Index>(record.column(ordered[i]));
      eids[i] = static_cast<Index>(record.id(ordered[i]));
    }
  }

  const EdgeList<Index> edges_;
  const CompressedEdges<Index> out_;
  const Buckets buckets_;
  const Record record_;
  const Records records_;
  const Workers& workers_;
  std::vector<int64_t> offsets_;  // [worker][bucket]
  std::vector<int64_t> starts_;   // [bucket + 1]
  std::atomic<bool> is_valid_{true};
};

}  // namespace

template <typename Index>
int64_t compress_cpu(const EdgeList<Index>& edges, const CompressedEdges<Index>& out,
                     const Workers& workers) {
  if (edges.num_edges <= kSmall || edges.num_rows == 0) return compress_small(edges, out);
  const Buckets buckets = Buckets::make(edges.num_rows, edges.num_edges);
  const int column_bits = bits_of(edges.num_columns), id_bits = bits_of(edges.num_edges);
  bool done = false;
  if (buckets.shift + column_bits + id_bits <= 64) {
    using Packed = std::conditional_t<sizeof(Index) == 8, WholeRecords, HalvedRecords>;
    const PackedRecord record{column_bits, id_bits};
    done = BucketSort<Index, PackedRecord, Packed>(edges, out, buckets, record, workers).run();
  } else {
    done = BucketSort<Index, WideRecord, WideRecords>(edges, out, buckets, WideRecord{}, workers)
               .run();
  }
  return done ? -1 : first_invalid(edges);
}

template <typename Index>
int64_t expand_cpu(const Index* indptr, const Index* indices, const Index* eids, int64_t num_rows,
                   int64_t num_edges, Index* rows, Index* columns, const Workers& workers) {
  std::atomic<int64_t> invalid{-1};
  workers.for_ranges(num_edges, kGrain, [&](int64_t, int64_t begin, int64_t end) {
    int64_t row = std::upper_bound(indptr, indptr + num_rows + 1, begin) - indptr - 1;
    for (int64_t p = begin; p < end; ++p) {
      while (indptr[row + 1] <= p) ++row;
      const int64_t to = eids ? static_cast<int64_t>(eids[p]) : p;
      if (to < 0 || to >= num_edges) {
        invalid = p;
        return;
      }
      rows[to] = static_cast<Index>(row);
      if (columns) columns[to] = indices[p];
    }
  });
  return invalid;
}

template <typename Index>
bool is_indptr(const Index* indptr, int64_t num_rows, int64_t num_edges) {
  if (indptr[0] != 0 || indptr[num_rows] != num_edges) return false;
  bool ascending = true;
  for (int64_t r = 0; r < num_rows; ++r) ascending &= indptr[r] <= indptr[r + 1];
  return ascending;
}

template <typename Index>
int64_t count_cpu(const Index* ids, int64_t count, int64_t size, Index* result,
                  const Workers& workers) {
  // Each worker counts for itself, as long as that needs no more memory than the ids.
  const int64_t fitting = std::max<int64_t>(1, count / std::max<int64_t>(1, size));
  const int64_t parts = std::min(workers.parts_of(count, kGrain), fitting);
  std::vector<Index> counts((parts - 1) * size, 0);
  std::fill_n(result, size, Index{0});
  std::vector<int64_t> invalid(parts, -1);
  const auto count_part = [&](int64_t part) {
    Index* const to = part == 0 ? result : counts.data() + (part - 1) * size;
    for (int64_t i = count / parts * part;
         i < (part + 1 < parts ? count / parts * (part + 1) : count); ++i) {
      if (static_cast<uint64_t>(ids[i]) >= static_cast<uint64_t>(size)) {
        invalid[part] = i;
        return;
      }
      ++to[ids[i]];
    }
  };
  workers.run(parts, count_part);
  for (int64_t i = 0; i < parts; ++i) {
    if (invalid[i] >= 0) return invalid[i];
  }
  workers.for_ranges(size, kGrain, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t part = 1; part < parts; ++part) {
      const Index* const from = counts.data() + (part - 1) * size;
      for (int64_t i = begin; i < end; ++i) result[i] += from[i];
    }
  });
  return -1;
}

#define SMEX_INSTANTIATE(Index)                                                                  \
  template int64_t compress_cpu<Index>(const EdgeList<Index>&, const CompressedEdges<Index>&,    \
                                       const Workers&);                                          \
  template int64_t expand_cpu<Index>(const Index*, const Index*, const Index*, int64_t, int64_t, \
                                     Index*, Index*, const Workers&);                            \
  template bool is_indptr<Index>(const Index*, int64_t, int64_t);                                \
  template int64_t count_cpu<Index>(const Index*, int64_t, int64_t, Index*, const Workers&);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
