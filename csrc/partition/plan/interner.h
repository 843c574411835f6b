#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace smex {

/// Numbers for keys, equal for equal keys.
class Interner {
 public:
  int number(std::vector<int64_t> key) {
    const auto next = static_cast<int>(numbers_.size());
    return numbers_.try_emplace(std::move(key), next).first->second;
  }

 private:
  struct Hash {
    size_t operator()(const std::vector<int64_t>& key) const {
      size_t hash = key.size();
      for (int64_t part : key) {
        hash ^= static_cast<size_t>(part) * 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
      }
      return hash;
    }
  };
  std::unordered_map<std::vector<int64_t>, int, Hash> numbers_;
};

}  // namespace smex
