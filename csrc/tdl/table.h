#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ir/index_list.h"
#include "ir/interval.h"

namespace smex::tdl {

/// The numbers in an operand that are known when a program is made, and are indices of others: who
/// is joined to whom in a graph, the ids of an embedding. Never changes; may be read by threads.
class Table {
 public:
  explicit Table(std::vector<int64_t> numbers);
  /// Numbers that `owner` keeps.
  Table(std::shared_ptr<const void> owner, const int64_t* numbers, int64_t size);
  Table(std::shared_ptr<const void> owner, const int32_t* numbers, int64_t size);

  int64_t size() const { return size_; }
  int64_t operator[](int64_t place) const { return wide_ ? wide_[place] : narrow_[place]; }
  /// All numbers are in [0, size).
  bool is_within(int64_t size) const;
  /// The numbers at the places of a range, each once. Of those asked for before it is the same.
  std::shared_ptr<const IndexList> numbers_at(const Interval& places) const;

 private:
  IndexList found_at(const Interval& places) const;

  std::shared_ptr<const void> owner_;
  const int64_t* wide_ = nullptr;  ///< or
  const int32_t* narrow_ = nullptr;
  int64_t size_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const IndexList>> found_;
};

}  // namespace smex::tdl
