#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/region.h"

namespace smex {

namespace tdl {
struct Spec;
}

using ValueId = int32_t;
using OpId = int32_t;
inline constexpr ValueId kNoValue = -1;

enum class Role { kParameter, kBuffer, kInput, kTangent, kConstant, kIntermediate };

/// A tensor of the semantic graph. `dtype` is torch's name without the prefix ("float32").
struct Value {
  ValueId id = kNoValue;
  std::string name;
  Shape shape;
  std::string dtype;
  int itemsize = 4;
  Role role = Role::kIntermediate;
  OpId producer = -1;  ///< -1 for graph inputs
  int output_index = 0;
  std::vector<OpId> users;  ///< ascending, each op once
  int64_t numel() const;
  int64_t bytes() const { return numel() * itemsize; }
};

/// A tensor operand of an op; kNoValue stands for an absent optional tensor.
struct ValueRef {
  ValueId id = kNoValue;
  bool operator==(const ValueRef&) const = default;
};

/// One argument of an operator call, in schema order. Dtypes, layouts and memory formats are ints.
using Attr = std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string,
                          std::vector<int64_t>, std::vector<double>, std::vector<bool>, ValueRef,
                          std::vector<ValueRef>>;

/// How an argument is rewritten when the op computes only a tile of its output.
enum class LocalRule {
  kOutputShape,  ///< list becomes the shape of the local output 0 (view, expand, full)
  kZero,         ///< int becomes 0: the fetched input starts where the slice started
  kMaxInt,       ///< int becomes INT64_MAX: the fetched input ends where the slice ended
  kWindow,       ///< padding list becomes 0 where windows are cut: the input is padded explicitly,
                 ///< or the output cropped where windows land on it
  kWindowRest,   ///< list becomes how far the tile reaches beyond the landing region, where cropped
  kRows,         ///< int becomes the size of dimension 0 of the first operand's tile
  kOffset,       ///< list becomes the lower corner of the local output 0
  kDiagonal,     ///< int counts from the diagonal of the local output 0: rows begin lower there
  kFeatures,     ///< list becomes the shape of the local output 0 but for its first dimension
  kBegin,        ///< list becomes the one number at which the range of `index` begins
};

struct LocalArg {
  int arg = 0;
  LocalRule rule = LocalRule::kOutputShape;
  int index = -1;  ///< of the Spec, for kBegin
};

inline constexpr int kNoRegion = -1;
/// Of an open region what forward calls without one read is not kept for that.
constexpr bool is_open(int region) { return region < kNoRegion; }

/// An operator call. `args` hold every schema argument positionally, defaults filled in.
struct Op {
  OpId id = -1;
  std::string target;  ///< "aten::add.Tensor"
  std::vector<Attr> args;
  std::vector<ValueId>
      inputs;  ///< tensor operands in order of first appearance, without duplicates
  std::vector<ValueId> outputs;           ///< kNoValue for an output nobody uses
  std::shared_ptr<const tdl::Spec> spec;  ///< null: runs unsplit
  std::vector<LocalArg> local;
  std::string module_path;
  std::string source;     ///< "model.py:12"
  bool backward = false;  ///< depends on a tangent
  /// Of an activation checkpoint, whose calls the backward pass runs again; see
  /// partition/plan/recomputation.h.
  int region = kNoRegion;
  bool random = false;  ///< draws from torch's generator: worker 0 alone runs it, for all
};

/// One fused call that stands for several ops of the graph when none of them is split inside.
struct Fusion {
  Op fused;                   ///< its outputs are outputs of members
  std::vector<OpId> members;  ///< ascending
};

/// A value that leaves the graph, and what it is: an output, a gradient, or a buffer's new content.
enum class OutputKind { kOutput, kGradient, kBufferUpdate };
struct GraphOutput {
  ValueId value = kNoValue;
  OutputKind kind = OutputKind::kOutput;
  std::string name;           ///< parameter, input or buffer name; position for outputs
  ValueId target = kNoValue;  ///< the parameter or buffer that this is the gradient or update of
};

/// Where a dimension of a value, and what is cut like it, is cut: 0, and the ends of the parts of
/// as many workers as there are.
struct GivenParts {
  ValueId value = kNoValue;
  size_t dim = 0;
  std::shared_ptr<const std::vector<int64_t>> ends;
};

/// In which proportions workers get what is cut, by worker; some may get nothing.
struct Weighting {
  std::string name;  ///< of plans' tables: "speed"
  std::vector<double> shares;
};

/// The semantic graph: ops in an order in which every value is produced before it is used.
class Graph {
 public:
  ValueId add_value(std::string name, Shape shape, std::string dtype, int itemsize, Role role);
  /// Appends an op that produces `outputs` (values added before, without producer).
  OpId add_op(Op op);
  void add_output(GraphOutput output);
  void add_fusion(Fusion fusion);
  /// By op the region that it becomes part of. A fused call is part of its forward
  /// members' where they share one.
  void set_regions(const std::vector<int>& regions);

  /// In place of those given before. Throws InternalError where they do not ascend from 0 to the
  /// dimension's size.
  void give_parts(std::vector<GivenParts> parts);
  const std::vector<GivenParts>& given_parts() const { return given_parts_; }
  /// By which plans may cut, in place of those given before. Throws UserError unless shares are
  /// finite, none is negative and some are not 0.
  void give_weightings(std::vector<Weighting> weightings);
  const std::shared_ptr<const std::vector<Weighting>>& weightings() const { return weightings_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const std::vector<Fusion>& fusions() const { return fusions_; }
  const Value& value(ValueId id) const { return values_.at(id); }
  const Op& op(OpId id) const { return ops_.at(id); }
  /// Elements of all inputs.
  int64_t num_input_elements() const;

  /// One line an op, `%3: float32[64, 10] = aten::mm(%1, %2)  # fc`.
  std::string str() const;
  /// By input of an op the bytes of a number.
  std::vector<int> input_itemsizes(const Op& op) const;
  /// Throws InternalError that names the op and operand when the graph is not well formed.
  void verify() const;

 private:
  friend class SizedGraph;
  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<GraphOutput> outputs_;
  std::vector<Fusion> fusions_;
  std::vector<GivenParts> given_parts_;
  std::shared_ptr<const std::vector<Weighting>> weightings_ =
      std::make_shared<const std::vector<Weighting>>();
};

/// The tensor operands of an argument list, in order of first appearance, without duplicates or
/// absentees.
std::vector<ValueId> tensor_operands(const std::vector<Attr>& args);
/// As Python writes it; "%3" for a tensor.
std::string str(const Attr& arg);

}  // namespace smex
