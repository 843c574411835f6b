#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>

#include "kernels/cpu/large_pages.h"
#include "kernels/message/dispatch.h"
#include "kernels/winners/operator.h"
#include "kernels/winners/places.h"

namespace smex::kernels {
namespace {

// Numbers that a thread moves at least: below it waking one costs more.
constexpr int64_t kGrain = 1 << 15;

// Elements of a block. The places in features are random: all of a block's are asked for before
// the first is used.
constexpr int64_t kBlock = 256;

// Numbers of a row that threads may share without writing to the same cache line.
constexpr int64_t kColumns = 16;

at::Tensor result_of(int64_t rows, at::IntArrayRef features, const at::TensorOptions& options) {
  std::vector<int64_t> shape = {rows};
  shape.insert(shape.end(), features.begin(), features.end());
  return empty_result(shape, options);
}

/// From an element of `winner` to the row of a feature, -1 where there is none.
template <typename I>
class WinnerIds {
 public:
  WinnerIds(const at::Tensor& winner, const at::Tensor& table)
      : won_(winner.const_data_ptr<I>()),
        ids_(table.defined() && table.numel() > 0 ? table.const_data_ptr<I>() : nullptr) {}

  SMEX_INLINE int64_t operator[](int64_t i) const {
    const int64_t k = won_[i];
    if (!ids_) return k;
    const int64_t id = ids_[k < 0 ? 0 : k];
    return k < 0 ? -1 : id;
  }

 private:
  const I* const won_;
  const I* const ids_;
};

/// The part of the winners that one thread moves.
struct Share {
  int64_t row = 0, end_row = 0;        ///< of `winner`
  int64_t column = 0, end_column = 0;  ///< of `seen`
  int64_t id = 0, end_id = 0;          ///< of the feature
};

/// Calls `move(element of [V, seen], element of [rows, features])` for all that have won and lie in
/// a share, and `ask(element of [rows, features])` some time before.
template <typename I, typename Ask, typename Move>
void for_winners(const WinnerIds<I>& rows, const WinnerPlaces& places, const Share& share,
                 const Ask& ask, const Move& move) {
  int64_t seen[kBlock], feature[kBlock];
  int64_t count = 0;
  const auto flush = [&] {
    for (int64_t j = 0; j < count; ++j) move(seen[j], feature[j]);
    count = 0;
  };
  for (int64_t row = share.row; row < share.end_row; ++row) {
    for (int64_t i = share.column; i < share.end_column; ++i) {
      const int64_t id = rows[row * places.winners + places.winner[i]];
      seen[count] = row * places.count + i;
      feature[count] = id * places.features + places.feature[i];
      // Whether it counts is as good as random: no branch.
      const bool counts = (id >= share.id) & (id < share.end_id);
      ask(counts ? feature[count] : 0);
      count += counts;
      if (count == kBlock) flush();
    }
  }
  flush();
}

/// Shares of a scatter. Where winners of different rows never meet, rows are shared out; otherwise
/// columns that never do, and for the threads that are left the rows they meet in.
void share_scatter(const WinnerPlaces& places, int64_t winner_rows, int64_t rows, bool is_distinct,
                   const std::function<void(const Share&)>& run) {
  const Share all{0, winner_rows, 0, places.count, 0, rows};
  const int64_t elements = winner_rows * places.count;
  if (elements == 0) return;
  if (is_distinct) {
    const int64_t grain = std::max<int64_t>(1, kGrain / places.count);
    return at::parallel_for(0, winner_rows, grain, [&](int64_t begin, int64_t end) {
      Share share = all;
      share.row = begin;
      share.end_row = end;
      run(share);
    });
  }
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), 1 + elements / kGrain);
  const bool is_one_to_one = places.features == places.count;
  const int64_t across =
      is_one_to_one ? std::clamp<int64_t>(places.count / kColumns, 1, threads) : 1;
  const int64_t down = std::max<int64_t>(1, threads / across);
  at::parallel_for(0, across * down, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t x = index % across, y = index / across;
      const int64_t lines = places.count / kColumns;
      Share share = all;
      share.column = x == 0 ? 0 : lines * x / across * kColumns;
      share.end_column = x + 1 == across ? places.count : lines * (x + 1) / across * kColumns;
      share.id = rows * y / down;
      share.end_id = rows * (y + 1) / down;
      run(share);
    }
  });
}

at::Tensor scatter(const at::Tensor& grad, const at::Tensor& winner, const Table& table,
                   int64_t rows, at::IntArrayRef features, bool is_distinct) {
  // Sums of half precision are kept in float.
  const at::Tensor from = grad.to(sum_type(grad.scalar_type())).contiguous();
  const at::Tensor won = winner.contiguous();
  const at::Tensor ids = table ? table->contiguous() : at::Tensor();
  const at::Tensor out = result_of(rows, features, from.options()).zero_();
  const WinnerPlaces places(features_of(winner), features.vec(), features_of(grad));
  const auto run = [&](auto feature, auto id) {
    using T = decltype(feature);
    const T* const source = from.const_data_ptr<T>();
    T* const to = out.mutable_data_ptr<T>();
    const WinnerIds<decltype(id)> all(won, ids);
    share_scatter(places, winner.size(0), rows, is_distinct, [&](const Share& share) {
      for_winners(
          all, places, share, [=](int64_t b) { __builtin_prefetch(to + b, /*write=*/1); },
          [=](int64_t a, int64_t b) { to[b] += source[a]; });
    });
  };
  const auto with_ids = [&](auto feature) {
    dispatch_index(winner, [&](auto id) { run(feature, id); });
  };
  from.scalar_type() == at::kDouble ? with_ids(double()) : with_ids(float());
  return out.to(grad.scalar_type());
}

at::Tensor gather(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                  at::IntArrayRef seen, bool) {
  const at::Tensor from = x.contiguous(), won = winner.contiguous();
  const at::Tensor ids = table ? table->contiguous() : at::Tensor();
  const at::Tensor out = result_of(winner.size(0), seen, x.options());
  const WinnerPlaces places(features_of(winner), features_of(x), seen.vec());
  if (out.numel() == 0) return out;
  dispatch_types(kGatherWinners, x.scalar_type(), winner.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    const T* const source = data_of<T>(from);
    T* const to = mutable_data_of<T>(out);
    const WinnerIds<I> all(won, ids);
    const int64_t grain = std::max<int64_t>(1, kGrain / places.count);
    at::parallel_for(0, winner.size(0), grain, [&](int64_t begin, int64_t end) {
      std::fill(to + begin * places.count, to + end * places.count, T());
      for_winners(
          all, places, Share{begin, end, 0, places.count, 0, x.size(0)},
          [=](int64_t b) { __builtin_prefetch(source + b); },
          [=](int64_t a, int64_t b) { to[a] = source[b]; });
    });
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("scatter_winners", scatter);
  m.impl("gather_winners", gather);
}

}  // namespace smex::kernels
