#pragma once

#include <cstdint>

struct CUstream_st;

namespace smex::kernels {

/// Adds row i of `rows` to row `index[i]` of `to`, for each i but where that is `absent`.
template <typename T>
struct AddRows {
  int64_t count = 0;     ///< of rows that are added
  int64_t num_rows = 0;  ///< of `to`
  int64_t width = 0;
  int64_t absent = -1;
  const int64_t* index = nullptr;  ///< [count]
  const int64_t* order = nullptr;  ///< [count], a stable order in which `index` ascends
  const T* rows = nullptr;
  int64_t rows_stride = 0;
  T* to = nullptr;
  int64_t to_stride = 0;
};

/// Does it in device memory on `stream` and does not synchronise; the caller checks for launch
/// errors. A number out of range traps. No atomics: rows of one number are added one after the
/// other, in their order, by the threads that the first of them has; sums are kept in
/// accumulate_t<T>.
template <typename T>
void add_rows_cuda(const AddRows<T>& task, CUstream_st* stream);

}  // namespace smex::kernels
