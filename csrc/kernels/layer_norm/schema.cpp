// What layer normalization consists of when rows are cut: sums over a part of a row, which workers
// add up between them, and the element-wise rest. ATen has the whole only.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/layer_norm/operator.h"

namespace smex::kernels {

at::ScalarType sum_type(const at::Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? at::kFloat : x.scalar_type();
}

void check_row_mean(const at::Tensor& x, int64_t rank, int64_t count) {
  TORCH_CHECK_TYPE(x.is_floating_point(), "smex::row_mean: expected floating point, found ",
                   x.scalar_type());
  TORCH_CHECK_VALUE(rank >= 1 && rank <= x.dim(), "smex::row_mean: expected rows of 1 to ", x.dim(),
                    " dimensions, found ", rank);
  TORCH_CHECK_VALUE(count >= 1, "smex::row_mean: expected rows of at least 1 element, found ",
                    count);
}

void check_rows(const char* op, const at::Tensor& x, std::initializer_list<at::Tensor> like,
                std::initializer_list<at::Tensor> statistics,
                std::initializer_list<std::optional<at::Tensor>> vectors) {
  TORCH_CHECK_TYPE(x.is_floating_point(), op, ": expected floating point, found ", x.scalar_type());
  for (const at::Tensor& tensor : like) {
    TORCH_CHECK_VALUE(tensor.sym_sizes() == x.sym_sizes(), op, ": expected a gradient of shape ",
                      x.sym_sizes(), ", found ", tensor.sym_sizes());
  }
  for (const at::Tensor& statistic : statistics) {
    bool fits = statistic.dim() == x.dim();
    for (int64_t d = 0; fits && d < x.dim(); ++d) {
      fits = statistic.sym_size(d) == 1 || statistic.sym_size(d) == x.sym_size(d);
    }
    TORCH_CHECK_VALUE(fits, op, ": expected a number for each row of ", x.sym_sizes(), ", found ",
                      statistic.sym_sizes());
  }
  for (const std::optional<at::Tensor>& vector : vectors) {
    if (!vector) continue;
    const auto shape = x.sym_sizes();
    const bool fits =
        vector->dim() <= x.dim() &&
        shape.slice(x.dim() - std::min(vector->dim(), x.dim())) == vector->sym_sizes();
    TORCH_CHECK_VALUE(fits, op, ": expected a number for each place of a row of ", shape,
                      ", found ", vector->sym_sizes());
  }
}

namespace {

void check_sums(const at::Tensor& x, const at::Tensor& sums) {
  TORCH_CHECK_VALUE(sums.dim() == x.dim() && x.dim() > 0 && sums.sym_size(-1) == 2,
                    "smex::row_gradient: expected two sums for each row of ", x.sym_sizes(),
                    ", found ", sums.sym_sizes());
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> split_sums(const at::Tensor& x, const at::Tensor& sums) {
  check_sums(x, sums);
  return {sums.narrow(-1, 0, 1), sums.narrow(-1, 1, 1)};
}

namespace {

at::Tensor like_rows(const at::Tensor& x, const at::Tensor& statistic) {
  return at::empty_like(statistic, statistic.options().dtype(sum_type(x)),
                        at::MemoryFormat::Contiguous);
}

at::Tensor row_mean_meta(const at::Tensor& x, int64_t rank, int64_t count) {
  check_row_mean(x, rank, count);
  at::SymDimVector shape(x.sym_sizes());
  std::fill(shape.end() - rank, shape.end(), 1);
  return at::empty_symint(shape, x.options().dtype(sum_type(x)));
}

at::Tensor row_squares_meta(const at::Tensor& x, const at::Tensor& mean) {
  check_rows("smex::row_squares", x, {}, {mean}, {});
  return like_rows(x, mean);
}

std::tuple<at::Tensor, at::Tensor> row_normalize_meta(const at::Tensor& x, const at::Tensor& mean,
                                                      const at::Tensor& squares,
                                                      const std::optional<at::Tensor>& weight,
                                                      const std::optional<at::Tensor>& bias,
                                                      int64_t /*count*/, double /*eps*/) {
  check_rows("smex::row_normalize", x, {}, {mean, squares}, {weight, bias});
  return {at::empty_like(x, at::MemoryFormat::Contiguous), like_rows(x, squares)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> row_gradient_sums_meta(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
    int64_t rank, const std::optional<at::Tensor>& weight) {
  check_rows("smex::row_gradient_sums", x, {grad}, {mean, rstd}, {weight});
  const auto places = x.sym_sizes().slice(x.dim() - rank);
  const auto type = weight ? weight->options() : x.options();
  at::SymDimVector two(mean.sym_sizes());
  two.back() = 2;
  return {at::empty_symint(two, x.options().dtype(sum_type(x))), at::empty_symint(places, type),
          at::empty_symint(places, type)};
}

at::Tensor row_gradient_meta(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                             const at::Tensor& rstd, const std::optional<at::Tensor>& weight,
                             const at::Tensor& sums, int64_t /*count*/) {
  check_sums(x, sums);
  at::SymDimVector one(sums.sym_sizes());  // slices of sizes that are symbols are not to be had
  one.back() = 1;
  const at::Tensor sum = at::empty_symint(one, sums.options());
  check_rows("smex::row_gradient", x, {grad}, {mean, rstd, sum}, {weight});
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("row_mean(Tensor x, int rank, int count) -> Tensor");
  m.def("row_squares(Tensor x, Tensor mean) -> Tensor");
  m.def(
      "row_normalize(Tensor x, Tensor mean, Tensor squares, Tensor? weight, Tensor? bias, "
      "int count, float eps) -> (Tensor, Tensor)");
  m.def(
      "row_gradient_sums(Tensor grad, Tensor x, Tensor mean, Tensor rstd, int rank, "
      "Tensor? weight) -> (Tensor, Tensor, Tensor)");
  m.def(
      "row_gradient(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, Tensor sums, "
      "int count) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("row_mean", row_mean_meta);
  m.impl("row_squares", row_squares_meta);
  m.impl("row_normalize", row_normalize_meta);
  m.impl("row_gradient_sums", row_gradient_sums_meta);
  m.impl("row_gradient", row_gradient_meta);
}

}  // namespace smex::kernels
