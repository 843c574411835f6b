#include "graph/sample/sample.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "graph/row_random.h"
#include "graph/select/select.h"

namespace smex::graph {
namespace {

// Rows that a worker takes at once: enough to outweigh the taking, and few where one row is large.
constexpr int64_t kRowBlock = 64;
// Edges whose columns and ids are asked for before the first of them is read: they lie anywhere in
// memory, and as many can be on their way at a time as a core has room for.
constexpr int64_t kEdgesAhead = 256;
// Rows whose bounds are asked for ahead of the one that is drawn from.
constexpr int64_t kRowsAhead = 8;
// Up to so many numbers are looked through one by one for a repetition; they fit a few cache lines.
constexpr int64_t kFew = 32;

/// Calls `body(worker, begin, end)` for blocks of rows that cover those below `count`.
template <typename Body>
void for_row_blocks(int64_t count, const Workers& workers, const Body& body) {
  workers.for_each((count + kRowBlock - 1) / kRowBlock, [&](int64_t worker, int64_t block) {
    body(worker, block * kRowBlock, std::min(count, (block + 1) * kRowBlock));
  });
}

/// Calls `body(worker, i)` for every i below `count`.
template <typename Body>
void for_rows(int64_t count, const Workers& workers, const Body& body) {
  for_row_blocks(count, workers, [&](int64_t worker, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(worker, i);
  });
}

/// Copies columns and edge ids of one position after another.
template <typename Index>
class EdgeReader {
 public:
  EdgeReader(const EdgeRows<Index>& rows, Index* columns, Index* eids)
      : rows_(rows), columns_(columns), eids_(eids) {}

  void read(int64_t position) {
    __builtin_prefetch(rows_.indices + position);
    if (rows_.eids) __builtin_prefetch(rows_.eids + position);
    positions_[count_++] = position;
    if (count_ == kEdgesAhead) finish();
  }

  /// Copies those that were only asked for.
  void finish() {
    for (int64_t n = 0; n < count_; ++n) {
      *columns_++ = rows_.indices[positions_[n]];
      *eids_++ = rows_.eid(positions_[n]);
    }
    count_ = 0;
  }

 private:
  const EdgeRows<Index> rows_;
  Index* columns_;
  Index* eids_;
  int64_t count_ = 0;
  int64_t positions_[kEdgesAhead];
};

int64_t number_drawn(int64_t candidates, const Draw& draw) {
  if (draw.fanout < 0 || candidates == 0) return candidates;
  return draw.replace ? draw.fanout : std::min(draw.fanout, candidates);
}

void add_up(int64_t* offsets, int64_t count) {
  offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) offsets[i + 1] += offsets[i];
}

/// Draws positions of one row after another; has the memory that this takes.
template <typename Index>
class Sampler {
 public:
  Sampler(const Candidates<Index>& from, const Draw& draw) : from_(from), draw_(draw) {}

  /// Calls `take(position)` for each edge that is drawn from `row`.
  template <typename Take>
  void sample(int64_t row, uint64_t stream, const Take& take) {
    RowRandom random(draw_.seed, stream);
    const int64_t begin = from_.rows.begin(row);
    if (from_.are_all()) {
      draw_numbers(from_.rows.end(row) - begin, random, [&](int64_t n) { take(begin + n); });
      return;
    }
    positions_.clear();
    weights_.clear();
    from_.for_each(row, [&](int64_t position, double weight) {
      positions_.push_back(position);
      weights_.push_back(weight);
    });
    const auto take_number = [&](int64_t n) { take(positions_[n]); };
    if (from_.weights.is_uniform() || number_drawn(positions_.size(), draw_) == 0) {
      draw_numbers(positions_.size(), random, take_number);
    } else if (draw_.replace && draw_.fanout >= 0) {
      draw_weighted_with_replacement(random, take_number);
    } else {
      draw_weighted(random, take_number);
    }
  }

 private:
  /// Draws from 0 .. size - 1, all equally likely.
  template <typename Take>
  void draw_numbers(int64_t size, RowRandom& random, const Take& take) {
    const int64_t count = number_drawn(size, draw_);
    if (draw_.replace && draw_.fanout >= 0) {
      for (int64_t i = 0; i < count; ++i) take(random.below(size));
    } else if (count == size) {
      for (int64_t i = 0; i < size; ++i) take(i);
    } else if (count <= kFew) {
      draw_few(size, count, random, take);
    } else {
      draw_many(size, count, random, take);
    }
  }

  template <typename Take>
  static void draw_few(int64_t size, int64_t count, RowRandom& random, const Take& take) {
    int64_t drawn[kFew];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t last = size - count + i;
      int64_t number = random.below(last + 1);
      bool repeated = false;
      for (int64_t j = 0; j < i; ++j) repeated |= drawn[j] == number;
      if (repeated) number = last;
      drawn[i] = number;
      take(number);
    }
  }

  template <typename Take>
  void draw_many(int64_t size, int64_t count, RowRandom& random, const Take& take) {
    if (static_cast<int64_t>(is_drawn_.size()) < size) is_drawn_.resize(size, false);
    drawn_.clear();
    for (int64_t last = size - count; last < size; ++last) {
      int64_t number = random.below(last + 1);
      if (is_drawn_[number]) number = last;
      is_drawn_[number] = true;
      drawn_.push_back(number);
      take(number);
    }
    for (const int64_t number : drawn_) is_drawn_[number] = false;
  }

  template <typename Take>
  void draw_weighted_with_replacement(RowRandom& random, const Take& take) {
    for (size_t n = 1; n < weights_.size(); ++n) weights_[n] += weights_[n - 1];
    for (int64_t i = 0; i < draw_.fanout; ++i) {
      const double point = random.uniform() * weights_.back();
      const auto found = std::upper_bound(weights_.begin(), weights_.end(), point);
      // A point that rounds up to the sum belongs to the last.
      take(std::min<int64_t>(found - weights_.begin(), weights_.size() - 1));
    }
  }

  template <typename Take>
  void draw_weighted(RowRandom& random, const Take& take) {
    const int64_t size = weights_.size(), count = number_drawn(size, draw_);
    keys_.clear();
    if (count < size) {
      for (int64_t n = 0; n < size; ++n) keys_.push_back({random.exponential() / weights_[n], n});
      std::nth_element(keys_.begin(), keys_.begin() + count, keys_.end());
      for (int64_t i = 0; i < count; ++i) take(keys_[i].second);
    } else {
      for (int64_t n = 0; n < size; ++n) take(n);
    }
  }

  const Candidates<Index>& from_;
  const Draw draw_;
  std::vector<int64_t> positions_, drawn_;
  std::vector<double> weights_;
  std::vector<std::pair<double, int64_t>> keys_;
  std::vector<bool> is_drawn_;
};

}  // namespace

template <typename Index>
Mistake sample_offsets(const Candidates<Index>& from, const Index* chosen, int64_t count,
                       const Draw& draw, int64_t* offsets, const Workers& workers) {
  Least row, edge;
  for_rows(count, workers, [&](int64_t, int64_t i) {
    offsets[i + 1] = 0;
    if (!from.rows.is_valid(chosen[i])) return row.report(i);
    int64_t size = from.rows.end(chosen[i]) - from.rows.begin(chosen[i]);
    if (!from.are_all()) {
      size = 0;
      const int64_t wrong = from.for_each(chosen[i], [&](int64_t, double) { ++size; });
      if (wrong >= 0) return edge.report(wrong);
    }
    offsets[i + 1] = number_drawn(size, draw);
  });
  add_up(offsets, count);
  return {row.get(), edge.get()};
}

template <typename Index>
void sample_rows(const Candidates<Index>& from, const Index* chosen, int64_t count,
                 const Draw& draw, const int64_t* offsets, Index* columns, Index* eids,
                 const Workers& workers) {
  std::vector<Sampler<Index>> samplers(workers.count, Sampler<Index>(from, draw));
  for_row_blocks(count, workers, [&](int64_t worker, int64_t begin, int64_t end) {
    EdgeReader<Index> reader(from.rows, columns + offsets[begin], eids + offsets[begin]);
    for (int64_t i = begin; i < end; ++i) {
      __builtin_prefetch(from.rows.indptr + chosen[std::min(i + kRowsAhead, count - 1)]);
      samplers[worker].sample(chosen[i], i, [&](int64_t position) { reader.read(position); });
    }
    reader.finish();
  });
}

template <typename Index>
Mistake topk_offsets(const EdgeRows<Index>& rows, const Index* chosen, int64_t count, int64_t k,
                     int64_t* offsets) {
  const int64_t invalid = row_offsets(rows, chosen, count, offsets);
  if (invalid >= 0 || k < 0) return {invalid, -1};
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t size = offsets[i + 1] - begin;
    begin = offsets[i + 1];
    offsets[i + 1] = offsets[i] + std::min(k, size);
  }
  return {};
}

template <typename Index>
void topk_rows(const EdgeRows<Index>& rows, const double* values, const Index* chosen,
               int64_t count, bool ascending, const int64_t* offsets, Index* columns, Index* eids,
               const Workers& workers) {
  using Entry = std::pair<double, int64_t>;
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  for_rows(count, workers, [&](int64_t, int64_t i) {
    std::vector<Entry> entries;
    for (int64_t p = rows.begin(chosen[i]); p < rows.end(chosen[i]); ++p) {
      const double value = values[rows.eid(p)];
      entries.push_back({std::isnan(value) ? kLeast : value, p});
    }
    const int64_t k = offsets[i + 1] - offsets[i];
    std::partial_sort(entries.begin(), entries.begin() + k, entries.end(),
                      [ascending](const Entry& a, const Entry& b) {
                        if (a.first != b.first) return (a.first < b.first) == ascending;
                        return a.second < b.second;
                      });
    for (int64_t n = 0; n < k; ++n) {
      columns[offsets[i] + n] = rows.indices[entries[n].second];
      eids[offsets[i] + n] = rows.eid(entries[n].second);
    }
  });
}

#define SMEX_INSTANTIATE(Index)                                                                  \
  template Mistake sample_offsets<Index>(const Candidates<Index>&, const Index*, int64_t,        \
                                         const Draw&, int64_t*, const Workers&);                 \
  template void sample_rows<Index>(const Candidates<Index>&, const Index*, int64_t, const Draw&, \
                                   const int64_t*, Index*, Index*, const Workers&);              \
  template Mistake topk_offsets<Index>(const EdgeRows<Index>&, const Index*, int64_t, int64_t,   \
                                       int64_t*);                                                \
  template void topk_rows<Index>(const EdgeRows<Index>&, const double*, const Index*, int64_t,   \
                                 bool, const int64_t*, Index*, Index*, const Workers&);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
