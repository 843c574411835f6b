#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>

#include "edges/parallel.h"
#include "graph/gather/gather.h"
#include "kernels/cpu/kept_memory.h"

namespace smex::graph {
namespace {

constexpr const char* kGatherRows = "smex::gather_rows";

RowPieces checked_pieces(at::TensorList pieces, const at::Tensor& starts) {
  TORCH_CHECK_VALUE(!pieces.empty(), kGatherRows, ": expected at least one piece, found none");
  TORCH_CHECK_VALUE(starts.scalar_type() == at::kLong && starts.dim() == 1 &&
                        starts.size(0) == static_cast<int64_t>(pieces.size()) + 1,
                    kGatherRows, ": starts must be int64 of shape [", pieces.size() + 1,
                    "], found ", starts.scalar_type(), " of shape ", starts.sizes());
  RowPieces result;
  const at::Tensor bounds = starts.contiguous();
  const int64_t* const bound = bounds.const_data_ptr<int64_t>();
  result.starts.assign(bound, bound + bounds.size(0));
  const at::Tensor& like = pieces[0];
  TORCH_CHECK_VALUE(like.dim() > 0, kGatherRows, ": pieces must have rows, found a number");
  const auto row = like.sizes().slice(1);
  result.row_bytes = static_cast<int64_t>(like.element_size()) * c10::multiply_integers(row);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const at::Tensor& piece = pieces[i];
    const int64_t size = result.starts[i + 1] - result.starts[i];
    TORCH_CHECK_VALUE(size >= 0, kGatherRows, ": starts must ascend, found ", result.starts[i],
                      " before ", result.starts[i + 1]);
    TORCH_CHECK_VALUE(piece.dim() == like.dim() && piece.sizes().slice(1) == row &&
                          piece.scalar_type() == like.scalar_type() && piece.is_contiguous(),
                      kGatherRows,
                      ": pieces must be contiguous and have rows of one shape and "
                      "type, found ",
                      piece.scalar_type(), " of shape ", piece.sizes(), " beside ",
                      like.scalar_type(), " of shape ", like.sizes());
    TORCH_CHECK_VALUE(piece.size(0) == size || piece.size(0) == 0, kGatherRows, ": piece ", i,
                      " must have ", size, " rows, or none where it is not here, found ",
                      piece.size(0));
    const bool is_here = piece.size(0) == size;
    // Rows without bytes are here too.
    static const std::byte nothing{};
    const auto* data = static_cast<const std::byte*>(piece.const_data_ptr());
    result.data.push_back(!is_here ? nullptr : data != nullptr ? data : &nothing);
  }
  return result;
}

std::tuple<at::Tensor, at::Tensor> gather_rows_on_cpu(at::TensorList pieces,
                                                      const at::Tensor& starts,
                                                      const at::Tensor& ids) {
  const RowPieces from = checked_pieces(pieces, starts);
  TORCH_CHECK_VALUE(ids.scalar_type() == at::kLong && ids.dim() == 1, kGatherRows,
                    ": ids must be an int64 vector, found ", ids.scalar_type(), " of shape ",
                    ids.sizes());
  const at::Tensor wanted = ids.contiguous();
  const int64_t count = wanted.size(0);
  std::vector<int64_t> shape = pieces[0].sizes().vec();
  shape[0] = count;
  const at::Tensor rows = kernels::empty_kept(shape, pieces[0].options());
  const at::Tensor missing = at::empty({count}, pieces[0].options().dtype(at::kBool));
  const int64_t invalid =
      gather_rows(from, wanted.const_data_ptr<int64_t>(), count,
                  static_cast<std::byte*>(rows.mutable_data_ptr()),
                  static_cast<uint8_t*>(missing.mutable_data_ptr()), torch_workers());
  TORCH_CHECK_VALUE(invalid < 0, kGatherRows, ": expected ids from ", from.starts.front(), " to ",
                    from.starts.back() - 1, ", found ", wanted[invalid].item<int64_t>());
  return {rows, missing};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("gather_rows", gather_rows_on_cpu); }

}  // namespace smex::graph
