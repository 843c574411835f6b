#include "runtime/tile.h"

#include "ir/error.h"

namespace smex::runtime {

c10::SmallVector<int64_t, 5> sizes_of(const Region& box) {
  c10::SmallVector<int64_t, 5> sizes;
  for (const Interval& dim : box.dims) sizes.push_back(dim.size());
  return sizes;
}

at::Tensor box_view(const at::Tensor& tensor, const Region& box) {
  const auto sizes = sizes_of(box);
  if (tensor.sizes() == c10::IntArrayRef(sizes)) return tensor;
  int64_t offset = tensor.storage_offset();
  for (size_t d = 0; d < box.rank(); ++d) {
    const Interval& dim = box.dims[d];
    if (dim.hi > tensor.size(static_cast<int64_t>(d))) {
      throw InternalError("box " + box.str() + " is outside a tile of shape " +
                          c10::str(tensor.sizes()));
    }
    offset += dim.lo * tensor.stride(static_cast<int64_t>(d));
  }
  return tensor.as_strided(sizes, tensor.strides(), offset);
}

}  // namespace smex::runtime
