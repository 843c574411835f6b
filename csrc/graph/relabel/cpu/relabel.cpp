#include "graph/relabel/relabel.h"

#include <algorithm>
#include <bit>

namespace smex::graph {
namespace {

// 2^64 divided by the golden ratio: Fibonacci hashing spreads neighbouring ids.
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
// Places lie anywhere in a table that is larger than the cache: they are asked for ahead.
constexpr int64_t kAhead = 16;

/// Bits of the number of places that `capacity` ids fill at most half.
int bits_for(int64_t capacity) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(capacity, 1))) + 1;
}

}  // namespace

template <typename Index>
Relabeling<Index>::Relabeling(int64_t capacity, int64_t num_ids)
    : num_ids_(num_ids),
      dense_(num_ids >= 0 && num_ids <= int64_t{1} << bits_for(capacity)),
      shift_(64 - bits_for(capacity)),
      table_(dense_ ? num_ids : int64_t{1} << bits_for(capacity), kFree) {}

template <typename Index>
Index Relabeling<Index>::number_of(Index id, Slot& slot) {
  if (slot == kFree) {
    slot = static_cast<Slot>(ids_.size());
    ids_.push_back(id);
  }
  return static_cast<Index>(slot);
}

template <typename Index>
int64_t Relabeling<Index>::add_dense(const Index* ids, int64_t count, Index* numbers) {
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(ids[i]) >= static_cast<uint64_t>(num_ids_)) return i;
    // That one was not checked yet: it may be no place of the table.
    const uint64_t later = static_cast<uint64_t>(ids[std::min(i + kAhead, count - 1)]);
    __builtin_prefetch(table_.data() + std::min<uint64_t>(later, num_ids_), /*write=*/1);
    numbers[i] = number_of(ids[i], table_[ids[i]]);
  }
  return -1;
}

template <typename Index>
uint64_t Relabeling<Index>::place_of(Index id) const {
  return (static_cast<uint64_t>(id) * kMultiplier) >> shift_;
}

template <typename Index>
int64_t Relabeling<Index>::add_hashed(const Index* ids, int64_t count, Index* numbers) {
  const uint64_t last = table_.size() - 1;
  for (int64_t i = 0; i < count; ++i) {
    const Index id = ids[i];
    if (num_ids_ >= 0 && static_cast<uint64_t>(id) >= static_cast<uint64_t>(num_ids_)) return i;
    const Index later = ids[std::min(i + kAhead, count - 1)];
    __builtin_prefetch(table_.data() + place_of(later), /*write=*/1);
    uint64_t place = place_of(id);
    while (table_[place] != kFree && ids_[table_[place]] != id) place = (place + 1) & last;
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
