#include "graph/relabel.h"

#include <algorithm>
#include <bit>

namespace smex::graph {
namespace {

// A table of all ids is at most so many times longer than the list.
constexpr int64_t kSparsest = 32;
// 2^64 divided by the golden ratio: Fibonacci hashing spreads neighbouring ids.
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;

}  // namespace

template <typename Index>
Relabeling<Index>::Relabeling(int64_t capacity, int64_t num_ids)
    : num_ids_(num_ids), dense_(num_ids >= 0 && num_ids / kSparsest <= capacity) {
  if (dense_) {
    table_.assign(num_ids, -1);
  } else {
    // At most half full.
    const int bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(capacity, 1))) + 1;
    shift_ = 64 - bits;
    table_.assign(int64_t{1} << bits, -1);
  }
}

template <typename Index>
Index Relabeling<Index>::number_of(Index id, Index& slot) {
  if (slot < 0) {
    slot = static_cast<Index>(ids_.size());
    ids_.push_back(id);
  }
  return slot;
}

template <typename Index>
int64_t Relabeling<Index>::add_dense(const Index* ids, int64_t count, Index* numbers) {
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(ids[i]) >= static_cast<uint64_t>(num_ids_)) return i;
    numbers[i] = number_of(ids[i], table_[ids[i]]);
  }
  return -1;
}

template <typename Index>
int64_t Relabeling<Index>::add_hashed(const Index* ids, int64_t count, Index* numbers) {
  const uint64_t last = table_.size() - 1;
  for (int64_t i = 0; i < count; ++i) {
    const Index id = ids[i];
    if (num_ids_ >= 0 && static_cast<uint64_t>(id) >= static_cast<uint64_t>(num_ids_)) return i;
    uint64_t place = (static_cast<uint64_t>(id) * kMultiplier) >> shift_;
    while (table_[place] >= 0 && ids_[table_[place]] != id) place = (place + 1) & last;
    numbers[i] = number_of(id, table_[place]);
  }
  return -1;
}

template <typename Index>
int64_t Relabeling<Index>::add(const Index* ids, int64_t count, Index* numbers) {
  return dense_ ? add_dense(ids, count, numbers) : add_hashed(ids, count, numbers);
}

template class Relabeling<int32_t>;
template class Relabeling<int64_t>;

}  // namespace smex::graph
