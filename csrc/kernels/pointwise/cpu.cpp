#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

// Numbers that are worth a thread.
constexpr int64_t kGrainSize = 16384;

/// Tensors of rows along the last dimension of a shape, which they broadcast to.
class Rows {
 public:
  Rows(at::IntArrayRef shape, at::TensorList outs, at::TensorList operands)
      : columns_(shape.empty() ? 1 : shape.back()),
        rows_(shape.size() < 2 ? 1 : shape[shape.size() - 2]),
        outer_(shape.slice(0, std::max<size_t>(shape.size(), 2) - 2)) {
    for (const at::Tensor& out : outs) add(out, out.mutable_data_ptr());
    for (const at::Tensor& operand : operands)
      add(operand, const_cast<void*>(operand.const_data_ptr()));
    const size_t count = data_.size();
    strides_.resize(2 * count);
    for (size_t k = 0; k < count; ++k) {
      // A column that is not repeated is as dense as any.
      strides_[k] = columns_ == 1 ? sizes_[k] : stride(k, 0, columns_);
      strides_[count + k] = stride(k, 1, rows_);
    }
  }

  const std::vector<bool>& bools() const { return bools_; }

  /// Calls `run(data, strides, columns, rows)` for all rows, as many at once as lie evenly.
  template <typename Run>
  void for_each(const Run& run) const {
    int64_t pieces = 1;
    for (const int64_t size : outer_) pieces *= size;
    if (pieces * rows_ * columns_ == 0) return;
    const int64_t grain = std::max<int64_t>(1, kGrainSize / columns_);
    at::parallel_for(0, pieces * rows_, grain, [&](int64_t begin, int64_t end) {
      std::vector<char*> data(data_.size());
      while (begin < end) {
        const int64_t piece = begin / rows_, row = begin % rows_;
        const int64_t count = std::min(end - begin, rows_ - row);
        for (size_t k = 0; k < data.size(); ++k) data[k] = place(k, piece, row);
        run(data.data(), strides_.data(), columns_, count);
        begin += count;
      }
    });
  }

 private:
  void add(const at::Tensor& tensor, void* data) {
    tensors_.push_back(&tensor);
    data_.push_back(static_cast<char*>(data));
    bools_.push_back(tensor.scalar_type() == at::kBool);
    sizes_.push_back(static_cast<int64_t>(tensor.element_size()));
  }

  /// The bytes from one to the next of `size` along a dimension, counted from the last; 0 repeats.
  int64_t stride(size_t k, int64_t from_last, int64_t size) const {
    const at::Tensor& tensor = *tensors_[k];
    const int64_t d = tensor.dim() - 1 - from_last;
    return d < 0 || tensor.size(d) != size ? 0 : tensor.stride(d) * sizes_[k];
  }

  char* place(size_t k, int64_t piece, int64_t row) const {
    char* at = data_[k] + row * strides_[data_.size() + k];
    for (size_t d = outer_.size(); d-- > 0; piece /= outer_[d]) {
      const auto from_last = static_cast<int64_t>(outer_.size() - d) + 1;
      at += piece % outer_[d] * stride(k, from_last, outer_[d]);
    }
    return at;
  }

  const int64_t columns_, rows_;
  const at::IntArrayRef outer_;             ///< sizes of the other dimensions
  std::vector<const at::Tensor*> tensors_;  ///< results, then operands
  std::vector<char*> data_;
  std::vector<bool> bools_;
  std::vector<int64_t> sizes_;    ///< of their elements
  std::vector<int64_t> strides_;  ///< from column to column, then from row to row
};

struct CpuKernel {
  static bool takes(const PointwiseProgram&, const at::TensorIterator&) { return true; }

  static bool run_by_rows(const PointwiseProgram& program, at::TensorList operands,
                          at::TensorList outs) {
    const at::SymDimVector shape = shape_of(operands);
    const Rows rows(C10_AS_INTARRAYREF_SLOW(shape), outs, operands);
    dispatch_features(kPointwise, type_of(operands), [&](auto feature) {
      using T = typename decltype(feature)::type;
      rows.for_each([&](char* const* data, const int64_t* strides, int64_t columns, int64_t count) {
        SMEX_PICK(run_pointwise<T>)(program, rows.bools(), data, strides, columns, count);
      });
    });
    return true;
  }

  template <typename T>
  static void run(const PointwiseProgram& program, at::TensorIterator& iterator) {
    std::vector<bool> bools;
    for (int i = 0; i < iterator.ntensors(); ++i) bools.push_back(iterator.dtype(i) == at::kBool);
    iterator.for_each(
        [&](char** data, const int64_t* strides, int64_t columns, int64_t rows) {
          SMEX_PICK(run_pointwise<T>)(program, bools, data, strides, columns, rows);
        },
        kGrainSize);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("pointwise", PointwiseBy<CpuKernel>::call);
  m.impl("pointwise_into", PointwiseBy<CpuKernel>::into);
}

}  // namespace smex::kernels
