#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace smex::graph {

/// Gives ids the numbers 0, 1, 2, ... in the order in which they first come. A table of all ids
/// where that is the smaller one, else a hash table with open addressing.
template <typename Index>
class Relabeling {
 public:
  /// For at most `capacity` different ids, fewer than 2^32. `num_ids`: ids are below it; -1: they
  /// may be anything.
  Relabeling(int64_t capacity, int64_t num_ids);

  /// Writes the numbers of `ids[0 .. count)` to `numbers`. Returns the place of the first id out of
  /// [0, num_ids), or -1.
  int64_t add(const Index* ids, int64_t count, Index* numbers);

  /// The ids by their numbers.
  const std::vector<Index>& ids() const { return ids_; }

 private:
  using Slot = uint32_t;  // half of what the numbers of 64-bit ids would take
  static constexpr Slot kFree = UINT32_MAX;

  int64_t add_dense(const Index* ids, int64_t count, Index* numbers);
  int64_t add_hashed(const Index* ids, int64_t count, Index* numbers);
  Index number_of(Index id, Slot& slot);
  uint64_t place_of(Index id) const;

  int64_t num_ids_;
  bool dense_;
  int shift_ = 0;            // a hash's upper bits are its place
  std::vector<Slot> table_;  // number at an id's place, or kFree
  std::vector<Index> ids_;
};

}  // namespace smex::graph
