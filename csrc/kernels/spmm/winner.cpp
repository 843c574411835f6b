#include "kernels/spmm/winner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "kernels/message/operands.h"

namespace smex::kernels {
namespace {

using Sizes = std::vector<c10::SymInt>;

/// `features` with ones in front, as many dimensions as `rank`.
Sizes aligned(const std::vector<int64_t>& features, int64_t rank) {
  Sizes sizes(rank - features.size(), 1);
  for (const int64_t size : features) sizes.emplace_back(size);
  return sizes;
}

Sizes with_rows(const c10::SymInt& rows, const Sizes& features) {
  Sizes sizes = {rows};
  sizes.insert(sizes.end(), features.begin(), features.end());
  return sizes;
}

/// Everything about one call that its operands share.
class Winners {
 public:
  Winners(const SavedMessage& saved, const at::Tensor& winner, const c10::SymInt& num_sources)
      : saved_(saved), winner_(winner), num_sources_(num_sources), rank_(winner.dim() - 1) {
    for (const auto& features : saved.features)
      rank_ = std::max<int64_t>(rank_, static_cast<int64_t>(features.size()));
    for (int64_t d = 0; d < rank_; ++d) {
      const int64_t own = d - (rank_ - (winner.dim() - 1));
      out_.push_back(own < 0 ? c10::SymInt(1) : winner.sym_size(own + 1));
    }
  }

  /// Feature sizes of operand `index` seen from the result: those of the result, but for the last
  /// one where the message sums over it.
  Sizes seen(int index) const {
    Sizes sizes = aligned(saved_.features[index], rank_);
    for (int64_t d = 0; d < rank_; ++d)
      if (out_[d] != 1) sizes[d] = out_[d];
    return sizes;
  }

  int64_t last_seen(int index) const {
    return rank_ == 0 ? 1 : seen(index).back().guard_int(__FILE__, __LINE__);
  }

  c10::SymInt rows(Target target) const {
    return target == Target::kSource        ? num_sources_
           : target == Target::kDestination ? winner_.sym_size(0)
           : target == Target::kEdge        ? saved_.in_edges[1].sym_size(0)
                                            : c10::SymInt(1);
  }

  /// Which row of the operand gave each element of the result; where nothing won, row 0.
  at::Tensor ids(Target target, int index) const {
    at::Tensor ids;
    if (target == Target::kDestination) {
      ids = at::arange(winner_.sym_size(0), winner_.options().dtype(at::kLong))
                .view_symint(with_rows(winner_.sym_size(0), Sizes(rank_, 1)));
    } else if (target == Target::kShared) {
      ids = at::zeros({}, winner_.options().dtype(at::kLong));
    } else {
      ids = winner_.clamp_min(0);
      const bool by_id = target == Target::kSource || saved_.in_edges.size() == 3;
      if (by_id) {
        const at::Tensor& table = saved_.in_edges[target == Target::kSource ? 1 : 2];
        ids = table.index_select(0, ids.reshape({-1})).view_symint(winner_.sym_sizes());
      }
      ids = ids.to(at::kLong).view_symint(with_rows(winner_.sym_size(0), out_));
    }
    return ids.expand_symint(with_rows(winner_.sym_size(0), seen(index)));
  }

  at::Tensor won() const { return winner_.ge(0).view_symint(with_rows(winner_.sym_size(0), out_)); }

  at::Tensor gather(const Message& read) const {
    const at::Tensor& x = saved_.operands[read->operand];
    const c10::SymInt count = rows(read->target);
    const Sizes own = with_rows(count, aligned(saved_.features[read->operand], rank_));
    const at::Tensor wide =
        x.reshape_symint(own).expand_symint(with_rows(count, seen(read->operand)));
    return wide.gather(0, ids(read->target, read->operand));
  }

  at::Tensor scatter(const at::Tensor& grad, Target target, int index) const {
    const Sizes wide = seen(index);
    const at::Tensor from = at::where(won(), grad, at::zeros({}, grad.options()))
                                .expand_symint(with_rows(winner_.sym_size(0), wide));
    const at::Tensor total = at::zeros_symint(with_rows(rows(target), wide), grad.options())
                                 .scatter_add(0, ids(target, index), from);
    return sum_to_features(total, saved_.features[index]);
  }

  at::Tensor as_result(const at::Tensor& grad) const {
    return grad.reshape_symint(with_rows(winner_.sym_size(0), out_));
  }

 private:
  const SavedMessage& saved_;
  const at::Tensor& winner_;
  const c10::SymInt& num_sources_;
  int64_t rank_;
  Sizes out_;  ///< feature sizes of the result, `rank_` of them
};

}  // namespace

at::Tensor winner_gradient(const SavedMessage& saved, int index, const at::Tensor& winner,
                           const c10::SymInt& num_sources, const at::Tensor& grad) {
  // Nothing can win where there is no edge, and row 0 may not exist.
  if (saved.in_edges[1].sym_size(0) == 0) {
    const Target target = [&] {
      for (const Message& read : operands_of(saved.message))
        if (read->operand == index) return read->target;
      return Target::kSource;
    }();
    const c10::SymInt rows = Winners(saved, winner, num_sources).rows(target);
    return at::zeros_symint(
        with_rows(rows, aligned(saved.features[index], saved.features[index].size())),
        grad.options());
  }
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
