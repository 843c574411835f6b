#include "kernels/message/operands.h"

#include <ATen/ExpandUtils.h>

#include <mutex>
#include <unordered_map>

namespace smex::kernels {

Message message_of(const char* op, const std::string& text) {
  static std::mutex mutex;
  static std::unordered_map<std::string, Message> parsed;
  constexpr size_t kMaxTexts = 4096;  // a program has few; a loop that makes new ones must not leak
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = parsed.find(text);
  if (known != parsed.end()) return known->second;
  try {
    const Message message = parse_message(text);
    if (parsed.size() >= kMaxTexts) parsed.clear();
    parsed.emplace(text, message);
    return message;
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, op, ": ", error.what());
  }
}

void check_operands(const char* op, const Message& message, at::TensorList edges,
                    at::TensorList out_edges, at::TensorList operands) {
  check_edges(op, edges);
  const int count = num_operands(message);
  TORCH_CHECK_VALUE(count >= 1 && static_cast<size_t>(count) == operands.size(), op, ": message \"",
                    to_string(message), "\" has ", count, " operands, found ", operands.size());
  const at::Tensor& first = operands[0];
  TORCH_CHECK_TYPE(first.is_floating_point(), op, ": operands are floating point, found ",
                   first.scalar_type());
  const std::vector<Message> reads = operands_of(message);
  for (const Message& read : reads) {
    for (const Message& other : reads)
      TORCH_CHECK_VALUE(other->operand != read->operand || other->target == read->target, op,
                        ": message \"", to_string(message), "\" reads operand ", read->operand,
                        " as ", to_string(read), " and as ", to_string(other),
                        "; pass the tensor twice");
    const at::Tensor& x = operands[read->operand];
    TORCH_CHECK_TYPE(x.scalar_type() == first.scalar_type(), op,
                     ": operands must have one type, found ", first.scalar_type(), " and ",
                     x.scalar_type());
    TORCH_CHECK_VALUE(x.device() == edges[0].device(), op, ": operand ", to_string(read), " is on ",
                      x.device(), ", the graph on ", edges[0].device());
    TORCH_CHECK_VALUE(x.dim() >= 1, op, ": operand ", to_string(read),
                      " needs a first dimension of one row per node or edge, found a scalar");
    if (read->target == Target::kShared)
      TORCH_CHECK_VALUE(x.sym_size(0) == 1, op, ": operand ", to_string(read),
                        " is shared by all edges and has 1 row, found ", x.sym_size(0));
    if (read->target == Target::kSource && are_given(out_edges))
      TORCH_CHECK_VALUE(x.sym_size(0) == out_edges[0].sym_size(0) - 1, op, ": operand ",
                        to_string(read), " has ", x.sym_size(0), " rows, but there are ",
                        out_edges[0].sym_size(0) - 1, " source nodes");
    if (read->target == Target::kDestination)
      TORCH_CHECK_VALUE(x.sym_size(0) == edges[0].sym_size(0) - 1, op, ": operand ",
                        to_string(read), " has ", x.sym_size(0), " rows, but there are ",
                        edges[0].sym_size(0) - 1, " destination nodes");
    if (read->target == Target::kEdge)
      TORCH_CHECK_VALUE(x.sym_size(0) == edges[1].sym_size(0), op, ": operand ", to_string(read),
                        " has ", x.sym_size(0), " rows, but there are ", edges[1].sym_size(0),
                        " edges");
  }
}

std::vector<FeatureShape> feature_shapes(at::TensorList operands) {
  std::vector<FeatureShape> shapes;
  for (const at::Tensor& x : operands) {
    const auto sizes = x.sizes();
    shapes.emplace_back(sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end());
  }
  return shapes;
}

MessageProgram compile_for(const char* op, const Message& message, at::TensorList operands,
                           const std::optional<FeatureShape>& reduce_to) {
  try {
    return compile(message, feature_shapes(operands), reduce_to);
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, op, ": message \"", to_string(message), "\": ", error.what());
  }
}

std::vector<int64_t> result_shape(int64_t rows, const MessageProgram& program) {
  std::vector<int64_t> shape = {rows};
  shape.insert(shape.end(), program.out_shape.begin(), program.out_shape.end());
  return shape;
}

at::SymDimVector symbolic_shape(const char* op, const Message& message, at::TensorList operands) {
  if (message->op == MessageOp::kOperand) {
    const auto sizes = operands[message->operand].sym_sizes();
    return {sizes.begin() + 1, sizes.end()};
  }
  if (message->op == MessageOp::kConstant) return {};
  at::SymDimVector shape = symbolic_shape(op, message->a, operands);
  if (message->b) {
    const at::SymDimVector other = symbolic_shape(op, message->b, operands);
    if (other.size() > shape.size())
      shape.insert(shape.begin(), other.size() - shape.size(), c10::SymInt(1));
    const size_t shift = shape.size() - other.size();
    for (size_t d = 0; d < other.size(); ++d) {
      if (other[d] == 1) continue;
      TORCH_CHECK_VALUE(shape[d + shift] == 1 || shape[d + shift] == other[d], op, ": message \"",
                        to_string(message), "\": feature sizes ", shape[d + shift], " and ",
                        other[d], " do not broadcast");
      shape[d + shift] = other[d];
    }
  }
  if (message->op == MessageOp::kSumLast && !shape.empty()) shape.back() = 1;
  return shape;
}

std::vector<int64_t> last_sizes(at::TensorList operands) {
  std::vector<int64_t> result;
  for (const at::Tensor& x : operands)
    result.push_back(x.dim() < 2 ? 1 : x.sym_size(-1).guard_int(__FILE__, __LINE__));
  return result;
}

}  // namespace smex::kernels
