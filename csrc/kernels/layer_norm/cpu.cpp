#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "kernels/layer_norm/operator.h"
#include "kernels/layer_norm/rows.h"

namespace smex::kernels {
namespace {

constexpr int64_t kElementsOfThread = 32768;  ///< torch's own grain for element-wise kernels

using MaybeTensor = std::optional<at::Tensor>;

/// Whether all are of the one type that there are kernels for.
bool have_kernel(const at::Tensor& x, std::initializer_list<at::Tensor> others,
                 std::initializer_list<MaybeTensor> vectors) {
  const auto type = x.scalar_type();
  return (type == at::kFloat || type == at::kDouble) &&
         std::all_of(others.begin(), others.end(),
                     [&](const at::Tensor& t) { return t.scalar_type() == type; }) &&
         std::all_of(vectors.begin(), vectors.end(),
                     [&](const MaybeTensor& t) { return !t || t->scalar_type() == type; });
}

Rows rows_of(const at::Tensor& x, const at::Tensor& statistic) {
  const int64_t rows = statistic.numel();
  return {rows, rows ? x.numel() / rows : 0};
}

template <typename Work>
void over_rows(const Rows& size, const Work& work) {
  const int64_t grain = std::max<int64_t>(1, kElementsOfThread / std::max<int64_t>(1, size.width));
  at::parallel_for(0, size.rows, grain, work);
}

MaybeTensor dense(const MaybeTensor& t) { return t ? MaybeTensor(t->contiguous()) : t; }

template <typename T>
const T* data(const MaybeTensor& t) {
  return t ? t->const_data_ptr<T>() : nullptr;
}

/// Dense tensors of rows, alive while kernels read them.
struct DenseRows {
  at::Tensor x, mean, rstd;
  MaybeTensor weight;
  DenseRows(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
            const MaybeTensor& weight)
      : x(x.contiguous()),
        mean(mean.contiguous()),
        rstd(rstd.contiguous()),
        weight(dense(weight)) {}
  template <typename T>
  NormalizedRows<T> of() const {
    return {x.const_data_ptr<T>(), mean.const_data_ptr<T>(), rstd.const_data_ptr<T>(),
            data<T>(weight)};
  }
};

at::Tensor row_mean_on_cpu(const at::Tensor& x, int64_t rank, int64_t count) {
  if (!have_kernel(x, {}, {})) return row_mean(x, rank, count);
  check_row_mean(x, rank, count);
  const at::Tensor from = x.contiguous();
  at::DimVector shape(x.sizes());
  std::fill(shape.end() - rank, shape.end(), 1);
  at::Tensor mean = at::empty(shape, x.options());
  const Rows size = rows_of(x, mean);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::row_mean", [&] {
    over_rows(size, [&](int64_t begin, int64_t end) {
      row_mean_cpu(size, from.const_data_ptr<scalar_t>(), count, mean.mutable_data_ptr<scalar_t>(),
                   begin, end);
    });
  });
  return mean;
}

at::Tensor row_squares_on_cpu(const at::Tensor& x, const at::Tensor& mean) {
  if (!have_kernel(x, {mean}, {})) return row_squares(x, mean);
  check_rows("smex::row_squares", x, {}, {mean}, {});
  const at::Tensor from = x.contiguous(), center = mean.contiguous();
  at::Tensor result = at::empty_like(center);
  const Rows size = rows_of(x, mean);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::row_squares", [&] {
    over_rows(size, [&](int64_t begin, int64_t end) {
      row_squares_cpu(size, from.const_data_ptr<scalar_t>(), center.const_data_ptr<scalar_t>(),
                      result.mutable_data_ptr<scalar_t>(), begin, end);
    });
  });
  return result;
}

std::tuple<at::Tensor, at::Tensor> row_normalize_on_cpu(const at::Tensor& x, const at::Tensor& mean,
                                                        const at::Tensor& squares,
                                                        const MaybeTensor& weight,
                                                        const MaybeTensor& bias, int64_t count,
                                                        double eps) {
  if (!have_kernel(x, {mean, squares}, {weight, bias})) {
    return row_normalize(x, mean, squares, weight, bias, count, eps);
  }
  check_rows("smex::row_normalize", x, {}, {mean, squares}, {weight, bias});
  const at::Tensor rstd = at::rsqrt(squares / count + eps).contiguous();
  const DenseRows from(x, mean, rstd, weight);
  const MaybeTensor shift = dense(bias);
  at::Tensor y = at::empty_like(from.x);
  const Rows size = rows_of(x, mean);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::row_normalize", [&] {
    over_rows(size, [&](int64_t begin, int64_t end) {
      row_normalize_cpu(size, from.of<scalar_t>(), data<scalar_t>(shift),
                        y.mutable_data_ptr<scalar_t>(), begin, end);
    });
  });
  return {y, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> row_gradient_sums_on_cpu(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
    int64_t rank, const MaybeTensor& weight) {
  if (!have_kernel(x, {grad, mean, rstd}, {weight})) {
    return row_gradient_sums(grad, x, mean, rstd, rank, weight);
  }
  check_rows("smex::row_gradient_sums", x, {grad}, {mean, rstd}, {weight});
  const at::Tensor gradient = grad.contiguous();
  const DenseRows from(x, mean, rstd, weight);
  at::DimVector two(mean.sizes());
  two.back() = 2;
  at::Tensor sums = at::empty(two, x.options());
  const auto places = x.sizes().slice(x.dim() - rank);
  at::Tensor by_weight = at::empty(places, x.options()), by_bias = at::empty(places, x.options());
  const Rows size = rows_of(x, mean);
  const int64_t width = by_weight.numel();
  const int64_t grain = std::max<int64_t>(64, kElementsOfThread / std::max<int64_t>(1, size.rows));
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::row_gradient_sums", [&] {
    const auto* const g = gradient.const_data_ptr<scalar_t>();
    over_rows(size, [&](int64_t begin, int64_t end) {
      row_gradient_sums_cpu(size, g, from.of<scalar_t>(), sums.mutable_data_ptr<scalar_t>(), begin,
                            end);
    });
    at::parallel_for(0, width, grain, [&](int64_t begin, int64_t end) {
      affine_gradients_cpu(size, g, from.of<scalar_t>(), by_weight.mutable_data_ptr<scalar_t>(),
                           by_bias.mutable_data_ptr<scalar_t>(), begin, end);
    });
  });
  return {sums, by_weight, by_bias};
}

at::Tensor row_gradient_on_cpu(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& rstd, const MaybeTensor& weight,
                               const at::Tensor& sums, int64_t count) {
  if (!have_kernel(x, {grad, mean, rstd, sums}, {weight})) {
    return row_gradient(grad, x, mean, rstd, weight, sums, count);
  }
  const auto [sum, dot] = split_sums(x, sums);
  check_rows("smex::row_gradient", x, {grad}, {mean, rstd, sum, dot}, {weight});
  const at::Tensor gradient = grad.contiguous(), pairs = sums.contiguous();
  const DenseRows from(x, mean, rstd, weight);
  at::Tensor result = at::empty_like(from.x);
  const Rows size = rows_of(x, mean);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::row_gradient", [&] {
    over_rows(size, [&](int64_t begin, int64_t end) {
      row_gradient_cpu(size, gradient.const_data_ptr<scalar_t>(), from.of<scalar_t>(),
                       pairs.const_data_ptr<scalar_t>(), count, result.mutable_data_ptr<scalar_t>(),
                       begin, end);
    });
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("row_mean", row_mean_on_cpu);
  m.impl("row_squares", row_squares_on_cpu);
  m.impl("row_normalize", row_normalize_on_cpu);
  m.impl("row_gradient_sums", row_gradient_sums_on_cpu);
  m.impl("row_gradient", row_gradient_on_cpu);
}

}  // namespace smex::kernels
