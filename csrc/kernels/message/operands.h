// What the operators on messages have in common on torch's side: reading their arguments.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "kernels/message/edges.h"
#include "kernels/message/program.h"

namespace smex::kernels {

/// The tensors of one compressed direction, `[indptr, indices]` or `[indptr, indices, eids]`.
struct EdgeTensors {
  at::Tensor indptr, indices, eids;  // eids is undefined where it is the identity

  /// Checks types, shapes and devices; `op` is named in errors.
  EdgeTensors(const char* op, at::TensorList tensors);

  int64_t num_rows() const { return indptr.size(0) - 1; }
  int64_t num_edges() const { return indices.size(0); }

  template <typename I>
  EdgeRows<I> rows() const {
    return {num_rows(), num_edges(), indptr.const_data_ptr<I>(), indices.const_data_ptr<I>(),
            eids.defined() ? eids.const_data_ptr<I>() : nullptr};
  }
};

/// Checks the tensors of one direction: number, types, shapes and devices.
void check_edges(const char* op, at::TensorList tensors);

/// The message of a text, parsed once per text. Throws ValueError with `op`'s name.
Message message_of(const char* op, const std::string& text);

/// Checks number, types, devices and first dimensions of the operands; those of sources where
/// `out_edges` says how many there are. That `edges` name existing rows is for the caller to see
/// to.
void check_operands(const char* op, const Message& message, at::TensorList edges,
                    at::TensorList out_edges, at::TensorList operands);

std::vector<FeatureShape> feature_shapes(at::TensorList operands);

/// As the torch-free compile, with a ValueError that names `op`.
Program compile_for(const char* op, const Message& message, at::TensorList operands,
                    const std::optional<FeatureShape>& reduce_to = std::nullopt);

/// The shape of a message's value, for sizes that may be symbols.
at::SymDimVector symbolic_shape(const char* op, const Message& message, at::TensorList operands);

/// The last feature dimensions; 1 where there is none.
std::vector<int64_t> last_sizes(at::TensorList operands);

}  // namespace smex::kernels
