#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <numeric>
#include <vector>

#include "kernels/layer_norm/operator.h"

namespace smex::kernels {
namespace {

/// `x` in the type that its sums are made in.
at::Tensor wide(const at::Tensor& x, const at::Tensor& like) { return x.to(sum_type(like)); }

/// The last `rank` dimensions of `dim`.
std::vector<int64_t> last(int64_t dim, int64_t rank) {
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), dim - rank);
  return dims;
}

/// Sums of each row of which `statistic` has one number.
at::Tensor of_rows(const at::Tensor& x, const at::Tensor& statistic) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (statistic.size(d) == 1) dims.push_back(d);
  }
  return dims.empty() ? x : x.sum(dims, /*keepdim=*/true);
}

at::Tensor normalized(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd) {
  return (wide(x, x) - wide(mean, x)) * wide(rstd, x);
}

at::Tensor weighed(const at::Tensor& grad, const at::Tensor& x,
                   const std::optional<at::Tensor>& weight) {
  return weight ? wide(grad, x) * wide(*weight, x) : wide(grad, x);
}

}  // namespace

at::Tensor row_mean(const at::Tensor& x, int64_t rank, int64_t count) {
  check_row_mean(x, rank, count);
  return wide(x, x).sum(last(x.dim(), rank), /*keepdim=*/true) / count;
}

at::Tensor row_squares(const at::Tensor& x, const at::Tensor& mean) {
  check_rows("smex::row_squares", x, {}, {mean}, {});
  const at::Tensor centered = wide(x, x) - wide(mean, x);
  return of_rows(centered * centered, mean);
}

std::tuple<at::Tensor, at::Tensor> row_normalize(const at::Tensor& x, const at::Tensor& mean,
                                                 const at::Tensor& squares,
                                                 const std::optional<at::Tensor>& weight,
                                                 const std::optional<at::Tensor>& bias,
                                                 int64_t count, double eps) {
  check_rows("smex::row_normalize", x, {}, {mean, squares}, {weight, bias});
  const at::Tensor rstd = at::rsqrt(squares / count + eps);
  at::Tensor y = normalized(x, mean, rstd);
  if (weight) y = y * wide(*weight, x);
  if (bias) y = y + wide(*bias, x);
  return {y.to(x.scalar_type()).contiguous(), rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> row_gradient_sums(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
    int64_t rank, const std::optional<at::Tensor>& weight) {
  check_rows("smex::row_gradient_sums", x, {grad}, {mean, rstd}, {weight});
  const at::Tensor places = normalized(x, mean, rstd), scaled = weighed(grad, x, weight);
  const std::vector<int64_t> rows = last(x.dim() - rank, x.dim() - rank);
  const auto over_rows = [&](const at::Tensor& product) {
    return (rows.empty() ? product : product.sum(rows)).to((weight ? *weight : x).scalar_type());
  };
  return {at::cat({of_rows(scaled, mean), of_rows(scaled * places, mean)}, -1),
          over_rows(wide(grad, x) * places), over_rows(wide(grad, x))};
}

at::Tensor row_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                        const at::Tensor& rstd, const std::optional<at::Tensor>& weight,
                        const at::Tensor& sums, int64_t count) {
  const auto [sum, dot] = split_sums(x, sums);
  check_rows("smex::row_gradient", x, {grad}, {mean, rstd, sum, dot}, {weight});
  const at::Tensor along = (sum + normalized(x, mean, rstd) * dot) / count;
  const at::Tensor result = (weighed(grad, x, weight) - along) * wide(rstd, x);
  return result.to(x.scalar_type()).contiguous();
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("row_mean", row_mean);
  m.impl("row_squares", row_squares);
  m.impl("row_normalize", row_normalize);
  m.impl("row_gradient_sums", row_gradient_sums);
  m.impl("row_gradient", row_gradient);
}

}  // namespace smex::kernels
