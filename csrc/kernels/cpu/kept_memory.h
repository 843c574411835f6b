#pragma once

#include <ATen/core/Tensor.h>

namespace smex::kernels {

/// As at::empty, for results that are made again and again, as batches are: a large block of the
/// CPU's memory is one that an earlier result has left, where one is that is not much larger.
///
/// The system hands out fresh memory page by page, each filled with zeros when it is first written
/// to, which takes longer than many a kernel that writes it. A block is used again when the last
/// tensor that refers to it is gone. Of those that wait at most `kKeptBytes` are kept, and none
/// that many later results had no use for.
at::Tensor empty_kept(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace smex::kernels
