#include "kernels/message/program.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace smex::kernels {
namespace {

std::string text_of(const FeatureShape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t product(const FeatureShape& shape) {
  int64_t result = 1;
  for (int64_t size : shape) result *= size;
  return result;
}

/// True when `shape` broadcasts to `whole` and nothing else.
bool fits(const FeatureShape& shape, const FeatureShape& whole) {
  if (shape.size() > whole.size()) return false;
  const size_t shift = whole.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && shape[d] != whole[d + shift]) return false;
  return true;
}

/// True when the two shapes broadcast.
bool broadcasts(const FeatureShape& a, const FeatureShape& b) {
  for (size_t back = 1; back <= std::min(a.size(), b.size()); ++back) {
    const int64_t x = a[a.size() - back], y = b[b.size() - back];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

/// Turns expressions into instructions, each distinct expression once.
class Compiler {
 public:
  Compiler(const std::vector<FeatureShape>& operands, MessageProgram& program)
      : operands_(operands), program_(program) {}

  int slot_of(const Message& m) {
    if (m->op == MessageOp::kSumLast && last_of(m->a) == 1) return slot_of(m->a);
    if (m->op == MessageOp::kStraightThrough) return slot_of(m->a);
    if (m->op == MessageOp::kSlope) return slot_of(m->b);
    const std::string key = to_string(m);
    const auto known = slots_.find(key);
    if (known != slots_.end()) return known->second;
    const int slot = m->op == MessageOp::kOperand ? new_operand(m) : new_instruction(m);
    slots_.emplace(key, slot);
    return slot;
  }

 private:
  int64_t last_of(const Message& m) const {
    const FeatureShape shape = shape_of(m, operands_);
    return shape.empty() ? 1 : shape.back();
  }

  int new_operand(const Message& m) {
    MessageOperand read{m->target, m->operand, program_.num_slots++, {}};
    read.broadcast = broadcast_of(operands_.at(m->operand), whole_);
    program_.operands.push_back(std::move(read));
    return program_.operands.back().slot;
  }

  int new_instruction(const Message& m) {
    Instruction next{m->op, 0, -1, -1, m->value};
    const bool by_number = takes_number(m->op);
    if (by_number) next.value = m->b->value;
    if (m->a) next.a = slot_of(m->a);
    if (m->b && !by_number) next.b = slot_of(m->b);
    next.out = program_.num_slots++;
    program_.code.push_back(next);
    return next.out;
  }

 public:
  FeatureShape whole_;

 private:
  const std::vector<FeatureShape>& operands_;
  MessageProgram& program_;
  std::map<std::string, int> slots_;
};

}  // namespace

/// Names two of the shapes that do not broadcast.
[[noreturn]] void fail_to_broadcast(const std::vector<FeatureShape>& shapes,
                                    const FeatureShape& shape, size_t from_right, int64_t size) {
  for (const FeatureShape& other : shapes) {
    if (other.size() >= from_right && other[other.size() - from_right] == size)
      throw std::invalid_argument("feature shapes " + text_of(other) + " and " + text_of(shape) +
                                  " do not broadcast");
  }
  throw std::logic_error("no shape has the size that clashes");
}

FeatureShape broadcast_shapes(const std::vector<FeatureShape>& shapes) {
  FeatureShape whole;
  for (const FeatureShape& shape : shapes) {
    if (shape.size() > whole.size()) whole.insert(whole.begin(), shape.size() - whole.size(), 1);
    const size_t shift = whole.size() - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = whole[d + shift];
      if (shape[d] == size || shape[d] == 1) continue;
      if (size != 1) fail_to_broadcast(shapes, shape, shape.size() - d, size);
      size = shape[d];
    }
  }
  return whole;
}

Broadcast broadcast_of(const FeatureShape& part, const FeatureShape& whole) {
  Broadcast result;
  result.row_size = product(part);
  const int64_t total = product(whole);
  const size_t shift = whole.size() - part.size();
  const auto repeated = [&](size_t d) {
    return whole[d] != 1 && (d < shift || part[d - shift] == 1);
  };
  const auto kept = [&](size_t d) { return whole[d] != 1 && !repeated(d); };
  if (result.row_size == total) return result;
  result.kind = Broadcast::Kind::kScalar;
  result.inner = total;
  if (result.row_size == 1) return result;

  // Changes between kept and repeated dimensions, from the outermost one inwards.
  int changes = 0;
  std::optional<bool> before;
  for (size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] == 1) continue;
    if (before && *before != kept(d)) ++changes;
    before = kept(d);
  }
  if (changes == 1) {
    result.kind = *before ? Broadcast::Kind::kTile : Broadcast::Kind::kHead;
    result.inner = *before ? result.row_size : total / std::max<int64_t>(1, result.row_size);
    return result;
  }
  result.kind = Broadcast::Kind::kTable;
  result.table.resize(total);
  std::vector<int64_t> strides(whole.size(), 0);
  int64_t stride = 1;
  for (size_t d = whole.size(); d-- > shift;) {
    if (!repeated(d)) strides[d] = stride;
    stride *= part[d - shift];
  }
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (size_t d = whole.size(); d-- > 0;) {
      result.table[i] += rest % whole[d] * strides[d];
      rest /= whole[d];
    }
  }
  return result;
}

FeatureShape shape_of(const Message& message, const std::vector<FeatureShape>& operands) {
  if (message->op == MessageOp::kOperand) return operands.at(message->operand);
  if (message->op == MessageOp::kConstant) return {};
  FeatureShape shape = shape_of(message->a, operands);
  if (message->b && !takes_number(message->op))
    shape = broadcast_shapes({shape, shape_of(message->b, operands)});
  if (message->op == MessageOp::kSumLast && !shape.empty()) shape.back() = 1;
  return shape;
}

MessageProgram compile(const Message& message, const std::vector<FeatureShape>& operands,
                       const std::optional<FeatureShape>& reduce_to) {
  MessageProgram program;
  FeatureShape full = shape_of(message, operands);
  program.out_shape = reduce_to ? *reduce_to : full;
  if (!fits(program.out_shape, full))
    throw std::invalid_argument("a message of shape " + text_of(full) + " cannot be summed to " +
                                text_of(program.out_shape));
  program.out_elements = product(program.out_shape);

  Compiler compiler(operands, program);
  FeatureShape& whole = compiler.whole_;
  for (const Message& read : operands_of(message)) {
    // Operands of different sums need not broadcast to each other.
    const FeatureShape& shape = operands.at(read->operand);
    if (!broadcasts(whole, shape)) return program;
    whole = broadcast_shapes({whole, shape});
  }
  program.elements = product(whole);
  // A sum over no elements is 0 all the same.
  if (program.elements == 0 && program.out_elements > 0) return program;
  program.is_fused = true;
  program.last = whole.empty() ? 1 : whole.back();
  program.result = compiler.slot_of(message);
  full.insert(full.begin(), whole.size() - full.size(), 1);
  if (!whole.empty() && full.back() == 1) program.pick = std::max<int64_t>(1, whole.back());
  program.reduces = program.out_elements != product(full);
  program.out = broadcast_of(program.out_shape, whole);
  return program;
}

bool is_product(const MessageProgram& program) {
  if (program.operands.size() != program.code.size() + 1) return false;
  for (const Instruction& step : program.code)
    if (step.op != MessageOp::kMul || step.b < 0) return false;
  return true;
}

bool is_dot(const MessageProgram& program) {
  if (program.operands.size() != 2 || program.code.empty()) return false;
  for (const MessageOperand& read : program.operands)
    if (read.broadcast.kind != Broadcast::Kind::kFull) return false;
  if (program.code[0].op != MessageOp::kMul) return false;
  const bool groups =
      program.out.kind == Broadcast::Kind::kHead || program.out.kind == Broadcast::Kind::kScalar;
  if (program.code.size() == 1) return program.reduces && groups && program.pick == 1;
  // dot itself: its value is picked from the sums that kSumLast leaves.
  return program.code.size() == 2 && program.code[1].op == MessageOp::kSumLast &&
         program.pick == program.last && groups;
}

}  // namespace smex::kernels
