#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "edges/rows.h"

namespace smex::graph {

/// Weights of edges by their ids: numbers, or a mask of the edges that may be drawn.
struct Weights {
  enum class Kind : int8_t { kNone, kMask, kFloat, kDouble };

  Kind kind = Kind::kNone;
  const void* data = nullptr;

  bool is_uniform() const { return kind == Kind::kNone || kind == Kind::kMask; }

  double operator[](int64_t eid) const {
    switch (kind) {
      case Kind::kNone:
        return 1;
      case Kind::kMask:
        return static_cast<const bool*>(data)[eid] ? 1 : 0;
      case Kind::kFloat:
        return static_cast<const float*>(data)[eid];
      case Kind::kDouble:
        return static_cast<const double*>(data)[eid];
    }
    return 0;
  }

  /// Whether it is a number of [0, infinity).
  static bool is_valid(double weight) { return weight >= 0 && std::isfinite(weight); }
};

/// A set of ids that is made once and asked often.
template <typename Index>
class IdSet {
 public:
  IdSet() = default;
  IdSet(const Index* ids, int64_t count) {
    if (count == 0) return;
    // At most half full, so that a probe soon ends.
    const int bits = std::bit_width(static_cast<uint64_t>(count)) + 1;
    shift_ = 64 - bits;
    table_.assign(int64_t{1} << bits, kFree);
    for (int64_t i = 0; i < count; ++i) table_[place(ids[i])] = ids[i];
  }

  bool empty() const { return table_.empty(); }
  bool contains(Index id) const { return !empty() && table_[place(id)] == id; }

 private:
  static constexpr Index kFree = -1;

  /// Where the id is, or would be.
  uint64_t place(Index id) const {
    constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
    uint64_t at = (static_cast<uint64_t>(id) * kMultiplier) >> shift_;
    while (table_[at] != kFree && table_[at] != id) at = (at + 1) & (table_.size() - 1);
    return at;
  }

  int shift_ = 0;
  std::vector<Index> table_;
};

/// The edges of rows that may be drawn: those of positive weight that are not excluded.
template <typename Index>
struct Candidates {
  EdgeRows<Index> rows;
  Weights weights;
  const IdSet<Index>* excluded = nullptr;

  /// Whether every edge is one, all with the same weight.
  bool are_all() const { return weights.kind == Weights::Kind::kNone && !excluded; }

  /// Calls `body(position, weight)` for each candidate of a row. Returns the id of the first edge
  /// whose weight is not valid, or -1.
  template <typename Body>
  int64_t for_each(int64_t row, const Body& body) const {
    for (int64_t p = rows.begin(row); p < rows.end(row); ++p) {
      const Index eid = rows.eid(p);
      const double weight = weights[eid];
      if (!Weights::is_valid(weight)) return eid;
      if (weight > 0 && !(excluded && excluded->contains(eid))) body(p, weight);
    }
    return -1;
  }
};

/// Why nothing was drawn: a row that is asked for and does not exist, or an edge's weight. Both -1:
/// nothing is wrong.
struct Mistake {
  int64_t row = -1;   ///< its place among the rows that were asked for
  int64_t edge = -1;  ///< its id

  explicit operator bool() const { return row >= 0 || edge >= 0; }
};

/// The least of the numbers that workers report, or -1.
class Least {
 public:
  void report(int64_t value) {
    int64_t old = least_;
    while (value < old && !least_.compare_exchange_weak(old, value)) {
    }
  }
  int64_t get() const { return least_ == INT64_MAX ? -1 : least_.load(); }

 private:
  std::atomic<int64_t> least_{INT64_MAX};
};

}  // namespace smex::graph
