#include "edges/tensors.h"

namespace smex {

EdgeTensors::EdgeTensors(at::TensorList checked)
    : indptr(checked[0].contiguous()), indices(checked[1].contiguous()) {
  if (checked.size() == 3) eids = checked[2].contiguous();
}

EdgeTensors::EdgeTensors(const at::Tensor& indptr, const at::Tensor& indices,
                         const std::optional<at::Tensor>& eids)
    : indptr(indptr.contiguous()), indices(indices.contiguous()) {
  if (eids) this->eids = eids->contiguous();
}

void check_edges(const char* op, at::TensorList tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 2 || tensors.size() == 3, op,
                    ": edges are [indptr, indices] or [indptr, indices, eids], found ",
                    tensors.size(), " tensors");
  for (const at::Tensor& tensor : tensors) {
    const auto type = tensor.scalar_type();
    TORCH_CHECK_TYPE(type == at::kInt || type == at::kLong, op,
                     ": indptr, indices and eids are int32 or int64, found ", type);
    TORCH_CHECK_TYPE(type == tensors[0].scalar_type(), op,
                     ": indptr, indices and eids must have one type, found ",
                     tensors[0].scalar_type(), " and ", type);
    TORCH_CHECK_VALUE(tensor.device() == tensors[0].device(), op,
                      ": indptr, indices and eids must be on one device, found ",
                      tensors[0].device(), " and ", tensor.device());
    TORCH_CHECK_VALUE(tensor.dim() == 1, op, ": indptr, indices and eids have 1 dimension, found ",
                      tensor.dim());
  }
  TORCH_CHECK_VALUE(tensors[0].sym_size(0) > 0, op, ": indptr has num_rows + 1 elements, found 0");
  if (tensors.size() == 3)
    TORCH_CHECK_VALUE(tensors[1].sym_size(0) == tensors[2].sym_size(0), op, ": ",
                      tensors[1].sym_size(0), " indices, but ", tensors[2].sym_size(0), " eids");
}

void check_ids(const char* op, const char* name, const at::Tensor& ids, const at::Tensor& like) {
  TORCH_CHECK_TYPE(ids.scalar_type() == at::kInt || ids.scalar_type() == at::kLong, op, ": ", name,
                   " must be int32 or int64, found ", ids.scalar_type());
  TORCH_CHECK_TYPE(ids.scalar_type() == like.scalar_type(), op, ": ", name, " must be ",
                   like.scalar_type(), " as the other ids, found ", ids.scalar_type());
  TORCH_CHECK_VALUE(ids.dim() == 1, op, ": ", name, " must be a vector, found shape ",
                    ids.sym_sizes());
  TORCH_CHECK_VALUE(ids.device() == like.device(), op, ": ", name, " must be on ", like.device(),
                    ", found ", ids.device());
}

void check_rows(const char* op, const at::Tensor& indptr, const at::Tensor& indices,
                const std::optional<at::Tensor>& eids) {
  check_ids(op, "indices", indices, indices);
  check_ids(op, "indptr", indptr, indices);
  TORCH_CHECK_VALUE(indptr.sym_size(0) >= 1, op,
                    ": indptr must have one element more than there are rows, found none");
  if (!eids) return;
  check_ids(op, "eids", *eids, indices);
  TORCH_CHECK_VALUE(eids->sym_size(0) == indices.sym_size(0), op, ": eids must have ",
                    indices.sym_size(0), " elements as indices, found ", eids->sym_size(0));
}

void check_indptr(const char* op, bool valid, int64_t num_edges) {
  TORCH_CHECK_VALUE(valid, op, ": indptr must ascend from 0 to the number of edges, ", num_edges);
}

void check_row(const char* op, int64_t invalid, const at::Tensor& rows, const at::Tensor& indptr) {
  TORCH_CHECK_VALUE(invalid < 0, op, ": row ", rows[invalid].item<int64_t>(), " at position ",
                    invalid, " is not in [0, ", indptr.size(0) - 1,
                    "), or indptr and indices do not fit together");
}

}  // namespace smex
