#include "tdl/table.h"

#include <algorithm>

namespace smex::tdl {

Table::Table(std::vector<int64_t> numbers) {
  const auto own = std::make_shared<const std::vector<int64_t>>(std::move(numbers));
  owner_ = own;
  wide_ = own->data();
  size_ = static_cast<int64_t>(own->size());
}

Table::Table(std::shared_ptr<const void> owner, const int64_t* numbers, int64_t size)
    : owner_(std::move(owner)), wide_(numbers), size_(size) {}

Table::Table(std::shared_ptr<const void> owner, const int32_t* numbers, int64_t size)
    : owner_(std::move(owner)), narrow_(numbers), size_(size) {}

bool Table::is_within(int64_t size) const {
  for (int64_t place = 0; place < size_; ++place) {
    const int64_t number = (*this)[place];
    if (number < 0 || number >= size) return false;
  }
  return true;
}

std::shared_ptr<const IndexList> Table::numbers_at(const Interval& places) const {
  const std::lock_guard lock(mutex_);
  auto& found = found_[{places.lo, places.hi}];
  if (!found) found = std::make_shared<const IndexList>(found_at(places));
  return found;
}

IndexList Table::found_at(const Interval& places) const {
  if (places.empty()) return {};
  int64_t least = (*this)[places.lo], greatest = least;
  for (int64_t place = places.lo; place < places.hi; ++place) {
    least = std::min(least, (*this)[place]);
    greatest = std::max(greatest, (*this)[place]);
  }
  // Marking takes a bit for each number in between, sorting a number for each place.
  constexpr int64_t kBits = 64;
  IndexList::Builder builder;
  if (greatest - least < kBits * places.size()) {
    std::vector<bool> is_there(greatest - least + 1, false);
    for (int64_t place = places.lo; place < places.hi; ++place) {
      is_there[(*this)[place] - least] = true;
    }
    for (int64_t n = 0; n < static_cast<int64_t>(is_there.size()); ++n) {
      if (is_there[n]) builder.add({least + n, least + n + 1});
    }
    return builder.build();
  }
  std::vector<int64_t> numbers;
  numbers.reserve(places.size());
  for (int64_t place = places.lo; place < places.hi; ++place) numbers.push_back((*this)[place]);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return IndexList(numbers);
}

}  // namespace smex::tdl
