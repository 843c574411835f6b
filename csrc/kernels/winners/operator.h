// smex::scatter_winners and smex::gather_winners: features to and from the edges that won.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace smex::kernels {

/// Rows of `winner` are positions; their rows in a feature, if those are others.
using Table = std::optional<at::Tensor>;

constexpr const char* kGatherWinners = "smex::gather_winners";
constexpr const char* kScatterWinners = "smex::scatter_winners";

/// Adds each element of `grad [V, *seen]` to the element of row `table[winner]` that it was
/// broadcast from, where `winner [V, ...]`, which broadcasts to `seen`, is not negative; without a
/// `table` the winner itself is the row. `is_distinct` says that winners of different rows of
/// `winner` are different rows here, as with edges. Returns `[rows, *features]`. Deterministic.
at::Tensor call_scatter_winners(const at::Tensor& grad, const at::Tensor& winner,
                                const Table& table, const c10::SymInt& rows,
                                at::IntArrayRef features, bool is_distinct);

/// The other way: `[V, *seen]` from the rows `table[winner]` of `x [rows, *features]`, and 0 where
/// `winner` is negative.
at::Tensor call_gather_winners(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                               at::IntArrayRef seen, bool is_distinct);

}  // namespace smex::kernels
