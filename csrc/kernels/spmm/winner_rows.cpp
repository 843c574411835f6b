#include "kernels/spmm/winner_rows.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/cpu/large_pages.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Table = std::optional<at::Tensor>;

constexpr const char* kOp = "smex::gather_winners";

// Numbers that a thread moves at least: below it waking one costs more.
constexpr int64_t kGrain = 1 << 15;

FeatureShape features_of(const at::Tensor& x) { return {x.sizes().begin() + 1, x.sizes().end()}; }

at::Tensor with_rows(int64_t rows, at::IntArrayRef features, const at::TensorOptions& options) {
  std::vector<int64_t> shape = {rows};
  shape.insert(shape.end(), features.begin(), features.end());
  return empty_result(shape, options).zero_();
}

/// For each element of a row of `seen` the element of a smaller row.
std::vector<int64_t> elements_of(const FeatureShape& part, const FeatureShape& seen) {
  std::vector<int64_t> rows;
  const Broadcast map = broadcast_of(part, seen);
  int64_t total = 1;
  for (const int64_t size : seen) total *= size;
  for (int64_t i = 0; i < total; ++i) rows.push_back(map.element(i));
  return rows;
}

/// Where the elements of rows are, in each of the three tensors.
struct Places {
  std::vector<int64_t> winner, feature;  ///< by element of `seen`
  int64_t winners, features, count;      ///< elements in a row

  Places(const FeatureShape& out, const FeatureShape& part, const FeatureShape& seen)
      : winner(elements_of(out, seen)),
        feature(elements_of(part, seen)),
        winners(c10::multiply_integers(out)),
        features(c10::multiply_integers(part)),
        count(c10::multiply_integers(seen)) {}

  /// Elements of a row do not meet in another row, so that they may be moved at the same time.
  bool is_one_to_one() const { return features == count; }
};

// ---- CPU ----

/// Elements that have won, in the order in which they are moved. The places in `rows` are random,
/// so they are asked for while the elements before are moved.
template <typename Ask, typename Move>
class MovesAhead {
 public:
  MovesAhead(const Ask& ask, const Move& move) : ask_(ask), move_(move) {}

  void add(int64_t seen, int64_t feature) {
    Pair& place = pairs_[added_ % kPairs];
    if (added_ >= kPairs) move_(place.seen, place.feature);
    place = {seen, feature};
    ask_(feature);
    ++added_;
  }

  void finish() {
    const int64_t count = added_ < kPairs ? added_ : kPairs;
    for (int64_t i = added_ - count; i < added_; ++i)
      move_(pairs_[i % kPairs].seen, pairs_[i % kPairs].feature);
  }

 private:
  static constexpr int64_t kPairs = 64;
  struct Pair {
    int64_t seen, feature;
  };
  const Ask& ask_;
  const Move& move_;
  Pair pairs_[kPairs];
  int64_t added_ = 0;
};

/// Calls `move(element of [V, seen], element of [rows, features])` for all that have won, and
/// `ask(element of [rows, features])` some time before.
template <typename I, typename Ask, typename Move>
void for_winners(const at::Tensor& winner, const Table& table, const Places& places, bool may_split,
                 const Ask& ask, const Move& move) {
  const int64_t rows = winner.size(0), count = places.count;
  if (count == 0 || rows == 0) return;
  const I* const won = winner.const_data_ptr<I>();
  const at::Tensor dense = table ? table->contiguous() : at::Tensor();
  const I* const ids = table ? dense.const_data_ptr<I>() : nullptr;
  const auto columns = [&](int64_t begin, int64_t end) {
    MovesAhead moves(ask, move);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = won[row * places.winners + places.winner[i]];
        if (k < 0) continue;
        const int64_t id = ids ? int64_t{ids[k]} : k;
        moves.add(row * count + i, id * places.features + places.feature[i]);
      }
    }
    moves.finish();
  };
  if (!may_split) return columns(0, count);
  at::parallel_for(0, count, std::max<int64_t>(1, kGrain / rows), columns);
}

at::Tensor scatter_cpu(const at::Tensor& grad, const at::Tensor& winner, const Table& table,
                       int64_t rows, at::IntArrayRef features) {
  // Sums of half precision are kept in float.
  const bool is_half = grad.scalar_type() == at::kHalf || grad.scalar_type() == at::kBFloat16;
  const at::Tensor from = (is_half ? grad.to(at::kFloat) : grad).contiguous();
  const at::Tensor won = winner.contiguous();
  const at::Tensor out = with_rows(rows, features, from.options());
  const Places places(features_of(winner), features.vec(), features_of(grad));
  const auto run = [&](auto feature, auto id) {
    using T = decltype(feature);
    using I = decltype(id);
    const T* const source = from.const_data_ptr<T>();
    T* const to = out.mutable_data_ptr<T>();
    for_winners<I>(
        won, table, places, places.is_one_to_one(),
        [=](int64_t b) { __builtin_prefetch(to + b, /*write=*/1); },
        [=](int64_t a, int64_t b) { to[b] += source[a]; });
  };
  const auto with_ids = [&](auto feature) {
    winner.scalar_type() == at::kInt ? run(feature, int32_t()) : run(feature, int64_t());
  };
  from.scalar_type() == at::kDouble ? with_ids(double()) : with_ids(float());
  return out.to(grad.scalar_type());
}

at::Tensor gather_cpu(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                      at::IntArrayRef seen) {
  const at::Tensor from = x.contiguous(), won = winner.contiguous();
  const at::Tensor out = with_rows(winner.size(0), seen, x.options());
  const Places places(features_of(winner), features_of(x), seen.vec());
  dispatch_types(kOp, x.scalar_type(), winner.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    const T* const source = data_of<T>(from);
    T* const to = mutable_data_of<T>(out);
    for_winners<I>(
        won, table, places, /*may_split=*/true, [=](int64_t b) { __builtin_prefetch(source + b); },
        [=](int64_t a, int64_t b) { to[a] = source[b]; });
  });
  return out;
}

// ---- CUDA, by torch's operators ----

/// Nothing has won where there are no edges.
bool has_no_rows(const Table& table) { return table && table->numel() == 0; }

/// The element of [rows, features] for each of [V, seen], flat, and whether it has won.
std::pair<at::Tensor, at::Tensor> linear_places(const at::Tensor& winner, const Table& table,
                                                const Places& places) {
  const auto options = winner.options().dtype(at::kLong);
  const at::Tensor column = at::tensor(places.winner, options);
  const at::Tensor won = winner.reshape({winner.size(0), -1}).index_select(1, column);
  at::Tensor id = won.clamp_min(0);
  if (table) id = table->index_select(0, id.reshape({-1})).view(won.sizes());
  const at::Tensor place = id.to(at::kLong) * places.features + at::tensor(places.feature, options);
  return {place.reshape({-1}), won.ge(0).reshape({-1})};
}

at::Tensor scatter_cuda(const at::Tensor& grad, const at::Tensor& winner, const Table& table,
                        int64_t rows, at::IntArrayRef features) {
  const bool is_half = grad.scalar_type() == at::kHalf || grad.scalar_type() == at::kBFloat16;
  const at::Tensor from = is_half ? grad.to(at::kFloat) : grad;
  const at::Tensor out = with_rows(rows, features, from.options());
  if (out.numel() == 0 || from.numel() == 0 || has_no_rows(table))
    return out.to(grad.scalar_type());
  const Places places(features_of(winner), features.vec(), features_of(grad));
  const auto [place, won] = linear_places(winner, table, places);
  const at::Tensor added = at::where(won, from.reshape({-1}), at::zeros({}, from.options()));
  // Sorts the places, and adds up those that are equal in order: deterministic, unlike scatter_add.
  out.view({-1}).index_put_({place}, added, /*accumulate=*/true);
  return out.to(grad.scalar_type());
}

at::Tensor gather_cuda(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                       at::IntArrayRef seen) {
  const at::Tensor out = with_rows(winner.size(0), seen, x.options());
  if (x.numel() == 0 || out.numel() == 0 || has_no_rows(table)) return out;
  const Places places(features_of(winner), features_of(x), seen.vec());
  const auto [place, won] = linear_places(winner, table, places);
  const at::Tensor taken = x.reshape({-1}).index_select(0, place);
  return at::where(won, taken, at::zeros({}, x.options())).view(out.sizes());
}

// ---- shapes only ----

at::Tensor scatter_meta(const at::Tensor& grad, const at::Tensor&, const Table&, c10::SymInt rows,
                        at::IntArrayRef features) {
  at::SymDimVector shape = {rows};
  for (const int64_t size : features) shape.emplace_back(size);
  return at::empty_symint(shape, grad.options());
}

at::Tensor gather_meta(const at::Tensor& x, const at::Tensor& winner, const Table&,
                       at::IntArrayRef seen) {
  at::SymDimVector shape = {winner.sym_size(0)};
  for (const int64_t size : seen) shape.emplace_back(size);
  return at::empty_symint(shape, x.options());
}

// ---- each is the other's gradient ----

std::vector<int64_t> known_features(const at::Tensor& x) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d < x.dim(); ++d)
    result.push_back(x.sym_size(d).guard_int(__FILE__, __LINE__));
  return result;
}

class ScatterFunction : public torch::autograd::Function<ScatterFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& grad, const at::Tensor& winner,
                            const Table& table, const c10::SymInt& rows,
                            const std::vector<int64_t>& features) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({winner, table.value_or(at::Tensor())});
    ctx->saved_data["seen"] = known_features(grad);
    return call_scatter_winners(grad, winner, table, rows, features);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const Table table = kept[1].defined() ? Table(kept[1]) : std::nullopt;
    const auto seen = ctx->saved_data["seen"].toIntVector();
    return {call_gather_winners(grads[0], kept[0], table, seen), at::Tensor(), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

class GatherFunction : public torch::autograd::Function<GatherFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& winner,
                            const Table& table, const std::vector<int64_t>& seen) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({winner, table.value_or(at::Tensor())});
    ctx->saved_data["rows"] = x.sym_size(0);
    ctx->saved_data["features"] = known_features(x);
    return call_gather_winners(x, winner, table, seen);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const Table table = kept[1].defined() ? Table(kept[1]) : std::nullopt;
    const auto features = ctx->saved_data["features"].toIntVector();
    return {call_scatter_winners(grads[0], kept[0], table, ctx->saved_data["rows"].toSymInt(),
                                 features),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor scatter_autograd(const at::Tensor& grad, const at::Tensor& winner, const Table& table,
                            c10::SymInt rows, at::IntArrayRef features) {
  if (at::GradMode::is_enabled() && grad.requires_grad())
    return ScatterFunction::apply(grad, winner, table, rows, features.vec());
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_scatter_winners(grad, winner, table, rows, features);
}

at::Tensor gather_autograd(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                           at::IntArrayRef seen) {
  if (at::GradMode::is_enabled() && x.requires_grad())
    return GatherFunction::apply(x, winner, table, seen.vec());
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_gather_winners(x, winner, table, seen);
}

}  // namespace

at::Tensor call_scatter_winners(const at::Tensor& grad, const at::Tensor& winner,
                                const Table& table, const c10::SymInt& rows,
                                at::IntArrayRef features) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("smex::scatter_winners", "")
                             .typed<decltype(scatter_meta)>();
  return op.call(grad, winner, table, rows, features);
}

at::Tensor call_gather_winners(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                               at::IntArrayRef seen) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("smex::gather_winners", "")
                             .typed<decltype(gather_cpu)>();
  return op.call(x, winner, table, seen);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "scatter_winners(Tensor grad, Tensor winner, Tensor? table, SymInt rows, int[] features) -> "
      "Tensor");
  m.def("gather_winners(Tensor x, Tensor winner, Tensor? table, int[] seen) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("scatter_winners", scatter_cpu);
  m.impl("gather_winners", gather_cpu);
}

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("scatter_winners", scatter_cuda);
  m.impl("gather_winners", gather_cuda);
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("scatter_winners", scatter_meta);
  m.impl("gather_winners", gather_meta);
}

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("scatter_winners", scatter_autograd);
  m.impl("gather_winners", gather_autograd);
}

}  // namespace smex::kernels
