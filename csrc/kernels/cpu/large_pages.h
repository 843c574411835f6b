#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace smex::kernels {

/// Asks for large pages under a large block of the CPU's memory that was not written to yet.
///
/// A fresh block is entered into the page table when it is first written to. With pages of 4 KiB
/// that takes longer than many a kernel that writes it.
void ask_for_large_pages(const at::Tensor& fresh);
void ask_for_large_pages(void* fresh, size_t bytes);

/// As at::empty, on large pages where they are worth it.
at::Tensor empty_result(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace smex::kernels
