// What the files that register the operator share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace smex::kernels {

constexpr const char* kAddRows = "smex::add_rows";

/// A stable order in which the numbers ascend, where the caller has it.
using Order = std::optional<at::Tensor>;

/// Checks all arguments of a call.
void check_add_rows(const at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                    const Order& order);

/// By ATen's operators, for any device and type.
void add_rows(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows, int64_t absent,
              const Order& order);

/// Both as matrices of rows, where their memory allows it.
std::optional<std::pair<at::Tensor, at::Tensor>> matrices(const at::Tensor& to,
                                                          const at::Tensor& rows);

}  // namespace smex::kernels
