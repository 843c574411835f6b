#include "kernels/message/unfused.h"

#include <ATen/ops/index_select.h>

#include <algorithm>

#include "edges/by_torch.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"

namespace smex::kernels {
namespace {

/// The rows of an operand in the order of positions.
at::Tensor rows_by_position(const EdgeTensors& edges, Target target, const at::Tensor& x) {
  if (target == Target::kSource) return x.index_select(0, edges.indices);
  if (target == Target::kEdge) return edges.eids.defined() ? x.index_select(0, edges.eids) : x;
  if (target == Target::kShared) {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes[0] = edges.num_edges();
    return x.expand(sizes);
  }
  return x.index_select(0, rows_of_positions(edges));
}

/// As many feature dimensions as `rank`, so that torch broadcasts them as messages do.
at::Tensor with_rank(const at::Tensor& x, int64_t rank) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin() + 1, rank - (x.dim() - 1), 1);
  return x.reshape(sizes);
}

}  // namespace

at::Tensor unfused_message(const EdgeTensors& edges, const Message& message,
                           at::TensorList operands) {
  const std::vector<Message> reads = operands_of(message);
  int64_t rank = 0;
  for (const Message& read : reads) rank = std::max(rank, operands[read->operand].dim() - 1);
  const auto type = operands[0].scalar_type();
  std::vector<at::Tensor> rows(operands.size());
  for (const Message& read : reads) {
    const at::Tensor x = rows_by_position(edges, read->target, operands[read->operand]);
    rows[read->operand] = with_rank(x, rank).to(sum_type(type));
  }
  return evaluate(message, rows).to(type);
}

void unfused_sddmm_into(const EdgeTensors& edges, const Message& message, at::TensorList operands,
                        const at::Tensor& out) {
  const at::Tensor values = unfused_message(edges, message, operands);
  const std::vector<int64_t> features(out.sizes().begin() + 1, out.sizes().end());
  const at::Tensor reduced = sum_to_features(values, features).view(out.sizes());
  if (edges.eids.defined()) {
    out.index_copy_(0, edges.eids.to(at::kLong), reduced);
  } else {
    out.copy_(reduced);
  }
}

}  // namespace smex::kernels
