#pragma once

#include <span>
#include <utility>
#include <vector>

namespace smex {

/// Numbers by key: those of one key lie together, in the order in which they were given.
class Grouped {
 public:
  Grouped() = default;
  /// Pairs of a key, below `num_keys`, and a number.
  Grouped(int num_keys, std::span<const std::pair<int, int>> pairs)
      : begins_(num_keys + 2, 0), items_(pairs.size()) {
    // Counted two places ahead, so that filling moves each begin to where it belongs.
    for (const auto& [key, item] : pairs) ++begins_[key + 2];
    for (size_t key = 2; key < begins_.size(); ++key) begins_[key] += begins_[key - 1];
    for (const auto& [key, item] : pairs) items_[begins_[key + 1]++] = item;
  }

  std::span<const int> of(int key) const {
    return {items_.data() + begins_[key], static_cast<size_t>(begins_[key + 1] - begins_[key])};
  }

 private:
  std::vector<int> begins_;
  std::vector<int> items_;
};

}  // namespace smex
