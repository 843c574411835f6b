// Each is the gradient of the other.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <vector>

#include "kernels/winners/operator.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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
                            const std::vector<int64_t>& features, bool is_distinct) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({winner, table.value_or(at::Tensor())});
    ctx->saved_data["seen"] = known_features(grad);
    ctx->saved_data["is_distinct"] = is_distinct;
    return call_scatter_winners(grad, winner, table, rows, features, is_distinct);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const Table table = kept[1].defined() ? Table(kept[1]) : std::nullopt;
    const auto seen = ctx->saved_data["seen"].toIntVector();
    const bool is_distinct = ctx->saved_data["is_distinct"].toBool();
    variable_list result(6);
    result[0] = call_gather_winners(grads[0], kept[0], table, seen, is_distinct);
    return result;
  }
};

class GatherFunction : public torch::autograd::Function<GatherFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& winner,
                            const Table& table, const std::vector<int64_t>& seen,
                            bool is_distinct) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({winner, table.value_or(at::Tensor())});
    ctx->saved_data["rows"] = x.sym_size(0);
    ctx->saved_data["features"] = known_features(x);
    ctx->saved_data["is_distinct"] = is_distinct;
    return call_gather_winners(x, winner, table, seen, is_distinct);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const Table table = kept[1].defined() ? Table(kept[1]) : std::nullopt;
    const auto features = ctx->saved_data["features"].toIntVector();
    variable_list result(5);
    result[0] = call_scatter_winners(grads[0], kept[0], table, ctx->saved_data["rows"].toSymInt(),
                                     features, ctx->saved_data["is_distinct"].toBool());
    return result;
  }
};

at::Tensor scatter_autograd(const at::Tensor& grad, const at::Tensor& winner, const Table& table,
                            c10::SymInt rows, at::IntArrayRef features, bool is_distinct) {
  if (at::GradMode::is_enabled() && grad.requires_grad())
    return ScatterFunction::apply(grad, winner, table, rows, features.vec(), is_distinct);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_scatter_winners(grad, winner, table, rows, features, is_distinct);
}

at::Tensor gather_autograd(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                           at::IntArrayRef seen, bool is_distinct) {
  if (at::GradMode::is_enabled() && x.requires_grad())
    return GatherFunction::apply(x, winner, table, seen.vec(), is_distinct);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_gather_winners(x, winner, table, seen, is_distinct);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("scatter_winners", scatter_autograd);
  m.impl("gather_winners", gather_autograd);
}

}  // namespace smex::kernels
