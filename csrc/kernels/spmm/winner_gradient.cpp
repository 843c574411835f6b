#include "kernels/spmm/winner_gradient.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "kernels/message/operands.h"
#include "kernels/winners/operator.h"

namespace smex::kernels {
namespace {

/// `features` with ones in front, as many dimensions as `rank`.
FeatureShape aligned(const FeatureShape& features, size_t rank) {
  FeatureShape sizes(rank - features.size(), 1);
  sizes.insert(sizes.end(), features.begin(), features.end());
  return sizes;
}

std::vector<c10::SymInt> with_rows(const c10::SymInt& rows, const FeatureShape& features) {
  std::vector<c10::SymInt> sizes = {rows};
  for (const int64_t size : features) sizes.emplace_back(size);
  return sizes;
}

/// Everything about one call that its operands share.
class Winners {
 public:
  Winners(const SavedMessage& saved, const at::Tensor& winner, const c10::SymInt& num_sources)
      : saved_(saved), num_sources_(num_sources) {
    FeatureShape out;
    for (int64_t d = 1; d < winner.dim(); ++d)
      out.push_back(winner.sym_size(d).guard_int(__FILE__, __LINE__));
    rank_ = out.size();
    for (const FeatureShape& features : saved.features) rank_ = std::max(rank_, features.size());
    out_ = aligned(out, rank_);
    winner_ = winner.view_symint(with_rows(winner.sym_size(0), out_));
  }

  /// Feature sizes of operand `index` seen from the result: those of the result, but for the last
  /// one where the message sums over it.
  FeatureShape seen(int index) const {
    FeatureShape sizes = aligned(saved_.features[index], rank_);
    for (size_t d = 0; d < rank_; ++d)
      if (out_[d] != 1) sizes[d] = out_[d];
    return sizes;
  }

  int64_t last_seen(int index) const { return rank_ == 0 ? 1 : seen(index).back(); }

  c10::SymInt rows(Target target) const {
    return target == Target::kSource        ? num_sources_
           : target == Target::kDestination ? winner_.sym_size(0)
           : target == Target::kEdge        ? saved_.in_edges[1].sym_size(0)
                                            : c10::SymInt(1);
  }

  /// The operand's values on the edges that won.
  at::Tensor gather(const Message& read) const {
    const at::Tensor& x = saved_.operands[read->operand];
    if (read->target == Target::kSource || read->target == Target::kEdge)
      return call_gather_winners(x, winner_, table(read->target), seen(read->operand),
                                 read->target == Target::kEdge);
    return x.view_symint(with_rows(x.sym_size(0), aligned(saved_.features[read->operand], rank_)));
  }

  /// The sum of a gradient [num_rows, ...] over the rows of an operand.
  at::Tensor scatter(const at::Tensor& grad, Target target, int index) const {
    const FeatureShape& features = saved_.features[index];
    const at::Tensor wide = grad.expand_symint(with_rows(winner_.sym_size(0), seen(index)));
    if (target == Target::kSource || target == Target::kEdge)
      return call_scatter_winners(wide, winner_, table(target), rows(target), features,
                                  target == Target::kEdge);
    const at::Tensor won = at::where(winner_.ge(0), wide, at::zeros({}, grad.options()));
    const at::Tensor total = target == Target::kShared ? won.sum(0, /*keepdim=*/true) : won;
    return sum_to_features(total, features);
  }

  at::Tensor as_result(const at::Tensor& grad) const {
    return grad.reshape_symint(with_rows(winner_.sym_size(0), out_));
  }

 private:
  /// From positions to the rows of an operand; none where they are the same.
  std::optional<at::Tensor> table(Target target) const {
    if (target == Target::kSource) return saved_.in_edges[1];
    return saved_.in_edges.size() == 3 ? std::optional(saved_.in_edges[2]) : std::nullopt;
  }

  const SavedMessage& saved_;
  const c10::SymInt& num_sources_;
  at::Tensor winner_;
  size_t rank_ = 0;
  FeatureShape out_;  ///< feature sizes of the result, `rank_` of them
};

}  // namespace

at::Tensor winner_gradient(const SavedMessage& saved, int index, const at::Tensor& winner,
                           const c10::SymInt& num_sources, const at::Tensor& grad) {
  const Winners winners(saved, winner, num_sources);
  const int last = static_cast<int>(saved.operands.size());
  std::vector<int64_t> sizes;
  for (int i = 0; i < last; ++i) sizes.push_back(winners.last_seen(i));
  sizes.push_back(last_sizes({grad})[0]);
  at::Tensor total;
  for (const Message& read : operands_of(saved.message)) {
    if (read->operand != index) continue;
    const Message d =
        derivative(saved.message, read->target, index, operand(Target::kDestination, last), sizes);
    std::vector<at::Tensor> values(last + 1);
    const std::vector<Message> reads = operands_of(d);
    if (reads.empty()) continue;  // it is 0
    for (const Message& other : reads)
      values[other->operand] =
          other->operand == last ? winners.as_result(grad) : winners.gather(other);
    const at::Tensor part = winners.scatter(evaluate(d, values), read->target, index);
    total = total.defined() ? total + part : part;
  }
  return total;
}

}  // namespace smex::kernels
