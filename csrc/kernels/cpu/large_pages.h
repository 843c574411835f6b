#pragma once

#include <ATen/core/Tensor.h>

namespace smex::kernels {

/// As at::empty, for results of kernels: large ones on the CPU ask for large pages.
///
/// A fresh block of memory is entered into the page table when it is first written to. With pages
/// of 4 KiB that takes longer than many a kernel that writes it.
at::Tensor empty_result(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace smex::kernels
