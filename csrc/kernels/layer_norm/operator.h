// What the files that register these operators share. Rows are the last dimensions of `x`, those
// along which the statistics have size 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <tuple>

namespace smex::kernels {

/// The type that sums over numbers of a type are made in: float for halves.
at::ScalarType sum_type(const at::Tensor& x);

/// The number of dimensions that the vectors of places have, or that statistics have size 1 along.
/// Throws where `statistics` are not by row of `x`, `like` not of its shape, or where `vectors` are
/// not of its last dimensions.
void check_rows(const char* op, const at::Tensor& x, std::initializer_list<at::Tensor> like,
                std::initializer_list<at::Tensor> statistics,
                std::initializer_list<std::optional<at::Tensor>> vectors);

/// The two sums of each row. Throws where they are not by row of `x`, and last of all two.
std::tuple<at::Tensor, at::Tensor> split_sums(const at::Tensor& x, const at::Tensor& sums);

/// Throws where rows have not `rank` dimensions, or `count` elements are none.
void check_row_mean(const at::Tensor& x, int64_t rank, int64_t count);

// By ATen's operators, for any device and type.
at::Tensor row_mean(const at::Tensor& x, int64_t rank, int64_t count);
at::Tensor row_squares(const at::Tensor& x, const at::Tensor& mean);
std::tuple<at::Tensor, at::Tensor> row_normalize(const at::Tensor& x, const at::Tensor& mean,
                                                 const at::Tensor& squares,
                                                 const std::optional<at::Tensor>& weight,
                                                 const std::optional<at::Tensor>& bias,
                                                 int64_t count, double eps);
std::tuple<at::Tensor, at::Tensor, at::Tensor> row_gradient_sums(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
    int64_t rank, const std::optional<at::Tensor>& weight);
at::Tensor row_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                        const at::Tensor& rstd, const std::optional<at::Tensor>& weight,
                        const at::Tensor& sums, int64_t count);

}  // namespace smex::kernels
