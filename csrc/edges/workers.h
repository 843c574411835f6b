#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace smex {

/// Threads that an algorithm may use, without saying whose they are: torch's in operators, one in
/// tests that look for a mistake, several in those that look for a race.
struct Workers {
  using Task = std::function<void(int64_t)>;

  /// How many tasks are worth starting; results never depend on it.
  int64_t count = 1;
  /// Calls `task(i)` once for every i below `count`, in any order, and returns when all are done.
  std::function<void(int64_t count, const Task& task)> run = [](int64_t count, const Task& task) {
    for (int64_t i = 0; i < count; ++i) task(i);
  };

  /// Calls `body(worker, begin, end)` for equal parts of [0, size), part i by worker i; fewer
  /// workers where a part would be smaller than `grain`.
  template <typename Body>
  void for_ranges(int64_t size, int64_t grain, const Body& body) const {
    const int64_t parts = parts_of(size, grain);
    if (parts == 1) return body(int64_t{0}, int64_t{0}, size);
    run(parts,
        [&](int64_t part) { body(part, bound(size, parts, part), bound(size, parts, part + 1)); });
  }

  /// How many parts `for_ranges` makes.
  int64_t parts_of(int64_t size, int64_t grain) const {
    return std::max<int64_t>(1, std::min(count, size / std::max<int64_t>(1, grain)));
  }

  /// Calls `body(worker, i)` for every i below `size`; a worker that is done takes the next one.
  template <typename Body>
  void for_each(int64_t size, const Body& body) const {
    std::atomic<int64_t> next{0};
    run(std::min(count, size), [&](int64_t worker) {
      for (int64_t i = next++; i < size; i = next++) body(worker, i);
    });
  }

  /// Calls `body(begin, end)` until the pieces 0 to `size` are done. A worker takes several at
  /// once, and more as soon as it is free: pieces of equal work do not take equal time.
  template <typename Body>
  void for_pieces(int64_t size, const Body& body) const {
    constexpr int64_t kTurns = 8;  // so often a worker comes for more
    const int64_t workers = std::min(count, size);
    if (workers <= 1) return body(int64_t{0}, size);
    const int64_t step = std::max<int64_t>(1, size / (workers * kTurns));
    std::atomic<int64_t> next{0};
    run(workers, [&](int64_t) {
      for (int64_t begin = next.fetch_add(step); begin < size; begin = next.fetch_add(step)) {
        body(begin, std::min(begin + step, size));
      }
    });
  }

 private:
  static int64_t bound(int64_t size, int64_t parts, int64_t part) {
    return size / parts * part + std::min(part, size % parts);
  }
};

}  // namespace smex
