#include "graph/gather/gather.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace smex::graph {
namespace {

/// A thread is worth starting for so many bytes: a copy of a page's worth takes about as long as
/// its first miss in the caches.
constexpr int64_t kGrainBytes = 1 << 16;

/// So many rows later one is asked for, and so many of its cache lines: the processor fetches what
/// follows by itself.
constexpr int64_t kAhead = 8;
constexpr int64_t kLines = 4;
constexpr int64_t kLineBytes = 64;

void ask_for(const std::byte* row, int64_t bytes) {
  for (int64_t at = 0; at < std::min(bytes, kLines * kLineBytes); at += kLineBytes) {
    __builtin_prefetch(row + at);
  }
}

void keep_least(std::atomic<int64_t>& least, int64_t place) {
  for (int64_t seen = least; place < seen && !least.compare_exchange_weak(seen, place);) {
  }
}

}  // namespace

int64_t gather_rows(const RowPieces& pieces, const int64_t* ids, int64_t count, std::byte* out,
                    uint8_t* is_missing, const Workers& workers) {
  const auto begin_of = pieces.starts.begin(), end_of = pieces.starts.end();
  std::atomic<int64_t> invalid{count};
  const int64_t grain = kGrainBytes / std::max<int64_t>(pieces.row_bytes, 1) + 1;
  workers.for_ranges(count, grain, [&](int64_t, int64_t begin, int64_t end) {
    int64_t piece = 0, first = 0, last = 0;  // the last id's piece: neighbours often share it
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = ids[i];
      if (id < first || id >= last) {
        if (id < pieces.starts.front() || id >= pieces.starts.back()) {
          keep_least(invalid, i);
          return;
        }
        piece = std::upper_bound(begin_of, end_of, id) - begin_of - 1;
        first = pieces.starts[piece];
        last = pieces.starts[piece + 1];
      }
      const std::byte* data = pieces.data[piece];
      if (const int64_t later = ids[std::min(i + kAhead, end - 1)];
          data != nullptr && later >= first && later < last) {
        ask_for(data + (later - first) * pieces.row_bytes, pieces.row_bytes);
      }
      is_missing[i] = data == nullptr;
      if (data != nullptr && pieces.row_bytes > 0) {
        std::memcpy(out + i * pieces.row_bytes, data + (id - first) * pieces.row_bytes,
                    static_cast<size_t>(pieces.row_bytes));
      }
    }
  });
  return invalid == count ? -1 : invalid.load();
}

}  // namespace smex::graph
