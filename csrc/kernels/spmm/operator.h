// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

#include "kernels/message/expression.h"
#include "kernels/spmm/spmm.h"

namespace smex::kernels {

constexpr const char* kSpmm = "smex::spmm";
constexpr const char* kExtremum = "smex::spmm_extremum";

/// The reducer of a name: 'max' or 'min' for an extremum, else 'sum' or 'mean'.
Reduce reduce_of(const char* op, std::string_view name, bool extremum);

/// The maximum or minimum of a row without edges.
double empty_value(Reduce reduce, bool zero_empty);

/// Refuses sums that are a part of a message only: which of several edges gave each part would not
/// be known.
void check_sums_at_root(const char* op, const Message& message, bool at_root = true);

/// smex::spmm_extremum through torch's dispatcher. `offset` is empty or the one number that is
/// added to the positions of winners: those before the edges of a tile.
std::tuple<at::Tensor, at::Tensor> call_extremum(at::TensorList in_edges, at::TensorList out_edges,
                                                 std::string_view message, std::string_view reduce,
                                                 at::TensorList operands, bool zero_empty,
                                                 bool need_winner, at::IntArrayRef offset = {});

/// Adds the offset to the positions that there are.
void count_from(at::Tensor& winner, at::IntArrayRef offset);

}  // namespace smex::kernels
