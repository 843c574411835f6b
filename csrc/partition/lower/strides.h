#pragma once

#include <optional>

#include "ir/graph.h"

namespace smex {

/// Elements between neighbours along each dimension of a local tensor. Empty: it is contiguous.
using Strides = std::vector<int64_t>;

/// A local tensor as far as it decides whether a reshape of it is a view.
struct LocalTensor {
  Shape shape;
  Strides strides;
};

/// The strides of a view of other shape; nothing where a reshape has to copy.
std::optional<Strides> reshaped(const LocalTensor& tensor, const Shape& shape);

/// The strides of a box of a tensor.
Strides of_box(const LocalTensor& tensor, const Shape& box);

/// Dense strides in the order of others, as TensorIterator lays outputs out.
Strides dense_like(const Shape& shape, const Strides& strides);

/// How an output of a call lies.
struct MadeTensor {
  Strides strides;
  bool copies = false;  ///< a view or reshape that has to copy
};

/// `args` are those of the local call, `operands` its tensors in the order of `Op::inputs`, and
/// `shape` what it makes at one of its outputs. Follows views, attention, and what goes element by
/// element, whose outputs lie as their first operand does; what other operators make is taken to be
/// contiguous.
MadeTensor made_by(const Op& op, const std::vector<Attr>& args,
                   const std::vector<LocalTensor>& operands, const Shape& shape, size_t output);

}  // namespace smex
