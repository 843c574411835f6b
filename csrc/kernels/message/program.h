#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host_device.h"
#include "kernels/message/expression.h"

namespace smex::kernels {

/// Sizes of the feature dimensions: everything after the first dimension of a tensor.
using FeatureShape = std::vector<int64_t>;

/// How a row of few elements is repeated to fill the row of all `n` elements of a message.
struct Broadcast {
  enum class Kind : uint8_t {
    kFull,    ///< element i is i
    kScalar,  ///< element i is 0
    kHead,    ///< element i is i / inner: one number for each head
    kTile,    ///< element i is i % inner
    kTable,   ///< element i is table[i]
  };
  Kind kind = Kind::kFull;
  int64_t inner = 1;
  int64_t row_size = 1;  ///< elements in the row that is repeated
  std::vector<int64_t> table;

  /// The element of the small row that element i of the message is.
  SMEX_INLINE int64_t element(int64_t i) const {
    switch (kind) {
      case Kind::kFull:
        return i;
      case Kind::kScalar:
        return 0;
      case Kind::kHead:
        return i / inner;
      case Kind::kTile:
        return i % inner;
      case Kind::kTable:
        return table[i];
    }
    return 0;
  }
};

/// The elements of a row of shape `part`, seen from a row of the shape `whole` it broadcasts to.
Broadcast broadcast_of(const FeatureShape& part, const FeatureShape& whole);

/// NumPy's broadcast of all shapes; throws std::invalid_argument that names both where two clash.
FeatureShape broadcast_shapes(const std::vector<FeatureShape>& shapes);

/// The shape of a message's value for given shapes of its operands.
FeatureShape shape_of(const Message& message, const std::vector<FeatureShape>& operands);

/// A feature row that a program reads.
struct MessageOperand {
  Target target = Target::kSource;
  int index = 0;  ///< into the operator's operands
  int slot = 0;
  Broadcast broadcast;
};

/// `slots[out] = op(slots[a], slots[b])`, element by element; `value` where `b` is a constant.
struct Instruction {
  MessageOp op = MessageOp::kAdd;
  int out = 0, a = -1, b = -1;
  double value = 0;
};

/// A message ready to be computed: every slot holds a row of all `elements` numbers.
struct MessageProgram {
  bool is_fused = false;  ///< false: no one row fits all operands, only `out_*` are set
  int64_t elements = 1;   ///< of the broadcast of all operands
  int64_t last = 1;       ///< size of the last dimension, over which kSumLast adds
  int num_slots = 0;
  std::vector<MessageOperand> operands;
  std::vector<Instruction> code;
  int result = 0;  ///< the slot of the message

  FeatureShape out_shape;
  int64_t out_elements = 1;
  int64_t pick = 1;      ///< only every pick-th element counts: the others repeat it
  bool reduces = false;  ///< several elements are added up in one of `out`
  Broadcast out;         ///< where an element of the result goes
};

/// True for a product of all operands, each of them once.
bool is_product(const MessageProgram& program);

/// True for a product of two full operands that is added up over groups of elements.
bool is_dot(const MessageProgram& program);

/// Translates `message`. With `reduce_to`, the result is summed down to that shape.
MessageProgram compile(const Message& message, const std::vector<FeatureShape>& operands,
                       const std::optional<FeatureShape>& reduce_to = std::nullopt);

}  // namespace smex::kernels
